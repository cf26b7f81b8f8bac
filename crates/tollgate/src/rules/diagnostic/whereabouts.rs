//! Lines and columns of places, found by walking on from the place before.

use crate::rules::source::{Place, Source};

/// A line longer than this is not shown: nobody wrote it to be read.
pub(super) const MAX_LINE: usize = 1_000;

/// A place as people count.
pub(super) struct Spot<'s> {
    pub(super) source: &'s Source,
    /// Counted from 1.
    pub(super) line: usize,
    /// Counted from 1, in characters.
    pub(super) column: usize,
    /// Bytes of the line, without its end.
    pub(super) line_start: usize,
    pub(super) line_end: usize,
}

impl<'s> Spot<'s> {
    /// The line, cut if it is overlong.
    pub(super) fn text(&self) -> &'s str {
        let text = &self.source.text;
        let end = text.floor_char_boundary(self.line_end.min(self.line_start + MAX_LINE));
        &text[self.line_start..end]
    }

    pub(super) fn is_overlong(&self) -> bool {
        self.line_end - self.line_start > MAX_LINE
    }
}

/// Counts lines; cheap as long as places come in the order of the text.
#[derive(Default)]
pub(super) struct Cursor {
    source: u32,
    at: usize,
    line: usize,
}

impl Cursor {
    pub(super) fn find<'s>(&mut self, sources: &'s [Source], place: Place) -> Option<Spot<'s>> {
        let source = sources.get(place.source as usize)?;
        let text = source.text.as_str();
        let at = text.floor_char_boundary((place.start as usize).min(text.len()));
        if place.source != self.source || at < self.at {
            *self = Cursor { source: place.source, at: 0, line: 0 };
        }
        let breaks = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
        self.line += breaks(&text[self.at..at]);
        self.at = at;
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let line_end = line_start + text[line_start..line_end].trim_end_matches('\r').len();
        let before = text[line_start..at].trim_start_matches('\u{feff}');
        let column = before.chars().count() + 1;
        Some(Spot { source, line: self.line + 1, column, line_start, line_end })
    }
}
