//! The trace: a file or standard input, read line by line.
//!
//! Only one line is held at a time, and none longer than [`MAX_LINE`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use super::event::Event;
use super::fault::Fault;

/// The longest line, in bytes.
const MAX_LINE: usize = 1 << 20;

/// Events in the order they are read.
pub(super) struct Trace {
    /// What errors call it.
    name: String,
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
    bar: ProgressBar,
    last_us: u64,
    /// How often the time went back.
    steps: u64,
}

impl Trace {
    /// Opens `path`; `-` is standard input. With `progress`, a bar shows how much was read, if
    /// standard error is a terminal.
    pub(super) fn open(path: &Path, progress: bool) -> anyhow::Result<Trace> {
        if path.as_os_str() == "-" {
            return Ok(Trace::new("stdin", Box::new(io::stdin()), ProgressBar::hidden()));
        }
        let name = path.display().to_string();
        let reading = || format!("cannot read the trace {name}");
        let file = File::open(path).with_context(reading)?;
        let metadata = file.metadata().with_context(reading)?;
        if metadata.is_dir() {
            bail!("cannot read the trace {name}: it is a directory, expected a file of JSON lines");
        }
        let bar = match progress && metadata.is_file() {
            true => bar(metadata.len()),
            false => ProgressBar::hidden(),
        };
        Ok(Trace::new(&name, Box::new(bar.wrap_read(file)), bar))
    }

    fn new(name: &str, reader: Box<dyn Read>, bar: ProgressBar) -> Trace {
        let reader = BufReader::with_capacity(1 << 16, reader);
        let name = name.to_owned();
        Trace { name, reader, line: Vec::new(), number: 0, bar, last_us: 0, steps: 0 }
    }

    /// The next event, or `None` at the end.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            self.line.clear();
            self.number += 1;
            let limit = MAX_LINE as u64 + 1;
            let read = (&mut self.reader).take(limit).read_until(b'\n', &mut self.line);
            let read = read.with_context(|| format!("cannot read the trace {}", self.name))?;
            if read == 0 {
                return Ok(None);
            }
            // Some editors begin a file with a mark of its encoding.
            let skip =
                if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            let line = &self.line[skip..];
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let event =
                parse(line).map_err(|fault| fault.on_line(&self.name, self.number, line))?;
            self.notice_step(&event);
            return Ok(Some(event));
        }
    }

    /// Whether reading on may have to wait for whoever writes the trace.
    pub(super) fn is_drained(&self) -> bool {
        self.reader.buffer().is_empty()
    }

    /// Says so when time goes back; once, as a step may be followed by many.
    fn notice_step(&mut self, event: &Event) {
        if event.at_us < self.last_us {
            self.steps += 1;
            if self.steps == 1 {
                let (name, number, last_us) = (&self.name, self.number, self.last_us);
                self.warn(&format!(
                    "{name}:{number}: at_us goes back from {last_us} to {}: taken as a step of \
                     the clock",
                    event.at_us
                ));
            }
        }
        self.last_us = event.at_us;
    }

    /// Puts the bar away and says what is left to say.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
        if self.steps > 1 {
            self.warn(&format!("{}: at_us goes back {} times in all", self.name, self.steps));
        }
    }

    fn warn(&self, what: &str) {
        self.bar.suspend(|| eprintln!("warning: {what}"));
    }
}

fn parse(line: &[u8]) -> Result<Event, Fault> {
    if line.len() > MAX_LINE {
        let message = format!("a line of more than {MAX_LINE} bytes: expected one JSON object");
        return Err(Fault::new(0, 1, message));
    }
    match std::str::from_utf8(line) {
        Ok(line) => Event::parse(line.trim_end_matches(['\r', '\n'])),
        Err(error) => {
            let message = "not UTF-8: expected JSON text in UTF-8";
            Err(Fault::new(error.valid_up_to(), 1, message))
        }
    }
}

fn bar(bytes: u64) -> ProgressBar {
    let template = "simulating {bar:40} {bytes}/{total_bytes} {eta}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style).with_finish(ProgressFinish::AndClear)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: impl Into<Vec<u8>>) -> Trace {
        Trace::new("t", Box::new(io::Cursor::new(text.into())), ProgressBar::hidden())
    }

    #[test]
    fn blank_lines_and_marks_are_skipped_but_counted() {
        let mut trace = trace("\u{feff}{\"at_us\":1}\r\n\n  \n{\"at_us\":2}\nx");
        assert_eq!(trace.next().unwrap().unwrap().at_us, 1);
        assert_eq!(trace.next().unwrap().unwrap().at_us, 2);
        assert!(trace.next().unwrap_err().to_string().starts_with("t:5:1: expected value"));
    }

    #[test]
    fn no_line_is_held_beyond_the_bound() {
        let mut trace = trace(vec![b'x'; 3 * MAX_LINE]);
        let error = trace.next().unwrap_err().to_string();
        assert!(error.starts_with("t:1:1: a line of more than 1048576 bytes"), "{error}");
        assert_eq!(trace.line.len(), MAX_LINE + 1);
    }

    #[test]
    fn other_encodings_are_named() {
        let error = trace(b"{\"key\":\"\xe9\"}".to_vec()).next().unwrap_err().to_string();
        assert!(error.starts_with("t:1:9: not UTF-8"), "{error}");
    }
}
