//! The trace: events that are read line by line.

use std::path::Path;

use super::fault::Fault;
use super::trace_event::TraceEvent;
use crate::line_reader::{LineReader, MAX_LINE};

/// A reader of events.
pub(super) struct Trace {
    lines: LineReader,
    last_us: u64,
    /// The number of times that the time went back.
    steps: u64,
}

impl Trace {
    /// Opens `path`, or standard input for `-`. With `progress`, a bar on a terminal shows how much
    /// was read.
    pub(super) fn open(path: &Path, progress: bool) -> anyhow::Result<Trace> {
        Ok(Trace::new(LineReader::open(path, "trace", progress)?))
    }

    fn new(lines: LineReader) -> Trace {
        Trace { lines, last_us: 0, steps: 0 }
    }

    /// Returns the next event, or `None` at the end.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<TraceEvent>> {
        let name = self.lines.name().to_owned();
        let Some((number, line)) = self.lines.next()? else { return Ok(None) };
        let event = parse(line).map_err(|fault| fault.on_line(&name, number, line))?;
        self.notice_step(&event, number);
        Ok(Some(event))
    }

    /// Returns whether the next read may block until the writer sends more.
    pub(super) fn is_drained(&self) -> bool {
        self.lines.is_drained()
    }

    /// Warns when the time goes back; only once, since one step may affect many events.
    fn notice_step(&mut self, event: &TraceEvent, number: u64) {
        if event.at_us < self.last_us {
            self.steps += 1;
            if self.steps == 1 {
                let (name, last_us) = (self.lines.name(), self.last_us);
                self.lines.warn(&format!(
                    "{name}:{number}: at_us goes back from {last_us} to {}: taken as a step of \
                     the clock",
                    event.at_us
                ));
            }
        }
        self.last_us = event.at_us;
    }

    /// Removes the bar, and prints the number of steps back.
    pub(super) fn finish(self) {
        self.lines.finish();
        if self.steps > 1 {
            let (name, steps) = (self.lines.name(), self.steps);
            self.lines.warn(&format!("{name}: at_us goes back {steps} times in all"));
        }
    }
}

fn parse(line: &[u8]) -> Result<TraceEvent, Fault> {
    if line.len() > MAX_LINE {
        let message = format!("a line of more than {MAX_LINE} bytes: expected one JSON object");
        return Err(Fault::new(0, 1, message));
    }
    match std::str::from_utf8(line) {
        Ok(line) => TraceEvent::parse(line.trim_end_matches(['\r', '\n'])),
        Err(error) => {
            let message = "not UTF-8: expected JSON text in UTF-8";
            Err(Fault::new(error.valid_up_to(), 1, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use indicatif::ProgressBar;

    use super::*;

    fn trace(text: impl Into<Vec<u8>>) -> Trace {
        let reader = Box::new(io::Cursor::new(text.into()));
        Trace::new(LineReader::new("t", "trace", reader, ProgressBar::hidden()).unwrap())
    }

    #[test]
    fn errors_name_the_line() {
        let mut trace = trace("\u{feff}{\"at_us\":1}\r\n\n  \n{\"at_us\":2}\nx");
        assert_eq!(trace.next().unwrap().unwrap().at_us, 1);
        assert_eq!(trace.next().unwrap().unwrap().at_us, 2);
        assert!(trace.next().unwrap_err().to_string().starts_with("t:5:1: expected value"));
    }

    #[test]
    fn a_line_that_is_too_long_is_refused() {
        let error = trace(vec![b'x'; 3 * MAX_LINE]).next().unwrap_err().to_string();
        assert!(error.starts_with("t:1:1: a line of more than 1048576 bytes"), "{error}");
    }

    #[test]
    fn other_encodings_are_named() {
        let error = trace(b"{\"key\":\"\xe9\"}".to_vec()).next().unwrap_err().to_string();
        assert!(error.starts_with("t:1:9: not UTF-8"), "{error}");
    }
}
