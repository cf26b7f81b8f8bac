//! Finds the lines and columns of spans, each by walking on from the one before.

use crate::read::source::{Source, SourceSpan};

/// The maximum length of a line that is shown, in bytes.
pub(super) const MAX_LINE: usize = 1_000;

/// The line and column of a span.
pub(super) struct SourceLocation<'s> {
    pub(super) source: &'s Source,
    /// Counted from 1.
    pub(super) line: usize,
    /// Counted from 1, in characters.
    pub(super) column: usize,
    /// The first byte of the line.
    pub(super) line_start: usize,
    /// The byte after its last, without the line break.
    pub(super) line_end: usize,
}

impl<'s> SourceLocation<'s> {
    /// Returns the line, cut if it is overlong.
    pub(super) fn text(&self) -> &'s str {
        let text = &self.source.text;
        let end = text.floor_char_boundary(self.line_end.min(self.line_start + MAX_LINE));
        &text[self.line_start..end]
    }

    pub(super) fn is_overlong(&self) -> bool {
        self.line_end - self.line_start > MAX_LINE
    }
}

/// Counts lines; cheap as long as spans come in the order of the text.
#[derive(Default)]
pub(super) struct LineCursor {
    source: u32,
    at: usize,
    line: usize,
}

impl LineCursor {
    pub(super) fn find<'s>(
        &mut self,
        sources: &'s [Source],
        span: SourceSpan,
    ) -> Option<SourceLocation<'s>> {
        let source = sources.get(span.source as usize)?;
        let text = source.text.as_str();
        let at = text.floor_char_boundary((span.start as usize).min(text.len()));
        if span.source != self.source || at < self.at {
            *self = LineCursor { source: span.source, at: 0, line: 0 };
        }
        let breaks = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
        self.line += breaks(&text[self.at..at]);
        self.at = at;
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let line_end = line_start + text[line_start..line_end].trim_end_matches('\r').len();
        let before = text[line_start..at].trim_start_matches('\u{feff}');
        let column = before.chars().count() + 1;
        Some(SourceLocation { source, line: self.line + 1, column, line_start, line_end })
    }
}
