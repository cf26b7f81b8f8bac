//! One command with its arguments, borrowed from the received bytes.

use super::parser::ArgumentSpan;

/// One command with its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct RespCommand<'a> {
    bytes: &'a [u8],
    spans: &'a [ArgumentSpan],
    /// The position of the command in the received bytes.
    start: usize,
}

impl<'a> RespCommand<'a> {
    pub(super) fn new(bytes: &'a [u8], spans: &'a [ArgumentSpan], start: usize) -> RespCommand<'a> {
        RespCommand { bytes, spans, start }
    }

    /// Returns the bytes of the command.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the positions of the arguments in the bytes of the command.
    pub(super) fn spans(&self) -> &'a [ArgumentSpan] {
        self.spans
    }

    /// Returns the number of arguments, including the name.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns an argument; the name is the first, and missing ones are empty.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &'a [u8] {
        self.spans.get(index).map_or(&[], |span| span.slice(self.bytes))
    }

    /// Returns the arguments from `index` on.
    pub(super) fn arguments_from(
        &self,
        index: usize,
    ) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let (bytes, spans) = (self.bytes, self.spans.get(index..).unwrap_or_default());
        spans.iter().map(move |span| span.slice(bytes))
    }

    /// Returns whether an argument equals `word`, ignoring case.
    #[inline]
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Returns the position of an argument in the received bytes.
    pub(super) fn span(&self, index: usize) -> ArgumentSpan {
        let start = self.start as u32;
        let ArgumentSpan { from, to } = self.spans.get(index).copied().unwrap_or_default();
        ArgumentSpan { from: start + from, to: start + to }
    }

    /// Returns the raw bytes of several arguments, with the lengths between them.
    ///
    /// Equal bytes mean equal arguments. Inline commands have no lengths, so this is `None`.
    #[inline]
    pub(super) fn raw(&self, first: usize, last: usize) -> Option<&'a [u8]> {
        let (first, last) = (self.spans.get(first)?, self.spans.get(last)?);
        let raw = self.bytes.get(first.from as usize..last.to as usize)?;
        (self.bytes.first() == Some(&b'*')).then_some(raw)
    }

    /// Returns an argument as text for messages; invalid UTF-8 is replaced.
    pub(super) fn display(&self, index: usize) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.get(index))
    }
}
