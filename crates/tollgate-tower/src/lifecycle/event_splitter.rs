//! Splits a streamed response into events, and buffers each no longer than needed.

/// The maximum length of an event. Longer ones are skipped.
pub(super) const LONGEST: usize = 256 << 10;

/// The format of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventFormat {
    /// `text/event-stream`: `data:` lines, up to an empty one.
    EventStream,
    /// A JSON text on every line.
    Lines,
}

/// Splits a stream that arrives in pieces into events.
#[derive(Debug)]
pub(super) struct EventSplitter {
    format: EventFormat,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// The data of an event whose end has not come yet.
    data: Vec<u8>,
    /// Whether the line just ended with a carriage return, so that a line feed belongs to it.
    after_return: bool,
    /// Whether the event is too long.
    is_too_long: bool,
    /// Whether any was.
    passed_over: bool,
}

impl EventSplitter {
    pub(super) fn new(format: EventFormat) -> EventSplitter {
        EventSplitter {
            format,
            line: Vec::new(),
            data: Vec::new(),
            after_return: false,
            is_too_long: false,
            passed_over: false,
        }
    }

    /// Whether an event was too long to be looked at.
    pub(super) fn has_passed_over(&self) -> bool {
        self.passed_over
    }

    /// Takes the next piece, and hands over each event that ends in it.
    pub(super) fn take(&mut self, mut piece: &[u8], event: &mut impl FnMut(&[u8])) {
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_return) && piece[0] == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let Some(end) = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.keep(piece);
                return;
            };
            let (line, rest) = (&piece[..end], &piece[end + 1..]);
            self.after_return = piece[end] == b'\r';
            piece = rest;
            if self.line.is_empty() {
                self.line_ended(line, event);
            } else {
                self.keep(line);
                let mut whole = std::mem::take(&mut self.line);
                self.line_ended(&whole, event);
                whole.clear();
                self.line = whole;
            }
        }
    }

    /// Nothing more comes: what there is of an event is all of it.
    pub(super) fn end(&mut self, event: &mut impl FnMut(&[u8])) {
        let line = std::mem::take(&mut self.line);
        self.line_ended(&line, event);
        self.line_ended(b"", event);
    }

    fn keep(&mut self, part: &[u8]) {
        match self.line.len() + part.len() <= LONGEST {
            true => self.line.extend_from_slice(part),
            false => self.is_too_long = true,
        }
    }

    fn line_ended(&mut self, line: &[u8], event: &mut impl FnMut(&[u8])) {
        if self.format == EventFormat::Lines {
            if !self.was_too_long() && !line.is_empty() {
                event(line);
            }
            return;
        }
        if line.is_empty() {
            if !self.was_too_long() && !self.data.is_empty() {
                event(&self.data);
            }
            self.data.clear();
            return;
        }
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let Some(data) = line.strip_prefix(b"data:") else { return };
        let data = data.strip_prefix(b" ").unwrap_or(data);
        if self.data.len() + data.len() > LONGEST {
            self.is_too_long = true;
            return;
        }
        if !self.data.is_empty() {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
    }

    fn was_too_long(&mut self) -> bool {
        self.passed_over |= self.is_too_long;
        std::mem::take(&mut self.is_too_long)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(format: EventFormat, pieces: &[&[u8]]) -> Vec<String> {
        let mut events = EventSplitter::new(format);
        let mut found = Vec::new();
        let mut note = |event: &[u8]| found.push(String::from_utf8_lossy(event).into_owned());
        pieces.iter().for_each(|piece| events.take(piece, &mut note));
        events.end(&mut note);
        found
    }

    const STREAM: &str = "\u{feff}data: one\n\n: a comment\nevent: x\r\ndata:two\r\ndata: more\r\n\r\nid: 7\rdata: three\r\rdata: [DONE]\n\ndata: last";

    #[test]
    fn events_end_with_an_empty_line() {
        let found = all(EventFormat::EventStream, &[STREAM.as_bytes()]);
        assert_eq!(found, ["one", "two\nmore", "three", "[DONE]", "last"]);
        let found = all(EventFormat::Lines, &[b"{\"a\":1}\n\n{\"a\"", b":2}\r\n{}"]);
        assert_eq!(found, ["{\"a\":1}", "{\"a\":2}", "{}"]);
    }

    #[test]
    fn an_event_that_is_too_long_is_skipped() {
        let long = "x".repeat(LONGEST);
        let in_lines = format!("data: {long}\ndata: y\n\n");
        for event in [format!("data: {long}y\n\n"), in_lines] {
            let mut events = EventSplitter::new(EventFormat::EventStream);
            let mut found = Vec::new();
            for piece in event.as_bytes().chunks(60_000).chain([&b"data: next\n\n"[..]]) {
                events.take(piece, &mut |event| found.push(event.len()));
                assert!(events.line.len() + events.data.len() <= 2 * LONGEST);
            }
            assert_eq!(found, [4]);
            assert!(events.has_passed_over());
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_pieces_end(cuts in prop::collection::vec(0..STREAM.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> =
                cuts.windows(2).map(|cut| &STREAM.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert_eq!(
                all(EventFormat::EventStream, &pieces),
                all(EventFormat::EventStream, &[STREAM.as_bytes()])
            );
        }
    }
}
