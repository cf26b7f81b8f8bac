//! One command with its arguments, as it came.

use super::request::Place;

/// One command with its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command<'a> {
    bytes: &'a [u8],
    places: &'a [Place],
    /// Where it begins in what was received.
    start: usize,
}

impl<'a> Command<'a> {
    pub(super) fn new(bytes: &'a [u8], places: &'a [Place], start: usize) -> Command<'a> {
        Command { bytes, places, start }
    }

    /// How many arguments there are, its name among them.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// An argument; its name is the first. Empty if there are not that many.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &'a [u8] {
        self.places.get(index).map_or(&[], |place| place.of(self.bytes))
    }

    /// Its arguments from `index` on.
    pub(super) fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let (bytes, places) = (self.bytes, self.places.get(index..).unwrap_or_default());
        places.iter().map(move |place| place.of(bytes))
    }

    /// Whether an argument is this word, in either case.
    #[inline]
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Where an argument is in what was received.
    pub(super) fn place(&self, index: usize) -> Place {
        let start = self.start as u32;
        let Place { from, to } = self.places.get(index).copied().unwrap_or_default();
        Place { from: start + from, to: start + to }
    }

    /// Several arguments just as they came, with what stands between them. The same bytes are the
    /// same arguments, if some of these were numbers. None for what was typed.
    #[inline]
    pub(super) fn raw(&self, first: usize, last: usize) -> Option<&'a [u8]> {
        let (first, last) = (self.places.get(first)?, self.places.get(last)?);
        let raw = self.bytes.get(first.from as usize..last.to as usize)?;
        (self.bytes.first() == Some(&b'*')).then_some(raw)
    }

    /// An argument as text; what is no UTF-8 is replaced. For messages only.
    pub(super) fn shown(&self, index: usize) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.get(index))
    }
}
