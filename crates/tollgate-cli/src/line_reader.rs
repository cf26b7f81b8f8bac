//! A reader of lines from a file or standard input, none longer than [`MAX_LINE`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// The maximum length of a line in bytes.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A reader of lines that skips blank ones and unpacks gzip files.
pub(crate) struct LineReader {
    /// The name in error messages.
    name: String,
    /// The kind of file: "trace" or "log".
    kind: &'static str,
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
    bar: ProgressBar,
}

impl LineReader {
    /// Opens `path`, or standard input for `-`. With `progress`, a bar on a terminal shows how much
    /// was read.
    pub(crate) fn open(
        path: &Path,
        kind: &'static str,
        progress: bool,
    ) -> anyhow::Result<LineReader> {
        if path.as_os_str() == "-" {
            return LineReader::new("stdin", kind, Box::new(io::stdin()), ProgressBar::hidden());
        }
        let name = path.display().to_string();
        let reading = || format!("cannot read the {kind} {name}");
        let file = File::open(path).with_context(reading)?;
        let metadata = file.metadata().with_context(reading)?;
        if metadata.is_dir() {
            bail!("cannot read the {kind} {name}: it is a directory, expected a file of lines");
        }
        let bar = match progress && metadata.is_file() {
            true => bar(metadata.len()),
            false => ProgressBar::hidden(),
        };
        LineReader::new(&name, kind, Box::new(bar.wrap_read(file)), bar)
    }

    /// Reads lines from any reader, unpacking gzip.
    pub(crate) fn new(
        name: &str,
        kind: &'static str,
        mut reader: Box<dyn Read>,
        bar: ProgressBar,
    ) -> anyhow::Result<LineReader> {
        let mut start = Vec::new();
        let begun = (&mut reader).take(GZIP.len() as u64).read_to_end(&mut start);
        begun.with_context(|| format!("cannot read the {kind} {name}"))?;
        let zipped = start == GZIP;
        let whole = io::Cursor::new(start).chain(reader);
        let reader: Box<dyn Read> = match zipped {
            true => Box::new(MultiGzDecoder::new(whole)),
            false => Box::new(whole),
        };
        let reader = BufReader::with_capacity(1 << 16, reader);
        Ok(LineReader { name: name.to_owned(), kind, reader, line: Vec::new(), number: 0, bar })
    }

    /// Returns the next line that is not blank, with its number; `None` at the end. A line that is
    /// too long is cut to one byte more than [`MAX_LINE`].
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<(u64, &[u8])>> {
        loop {
            self.skip_rest()?;
            self.line.clear();
            self.number += 1;
            let limit = MAX_LINE as u64 + 1;
            let read = (&mut self.reader).take(limit).read_until(b'\n', &mut self.line);
            if read.with_context(|| format!("cannot read the {} {}", self.kind, self.name))? == 0 {
                return Ok(None);
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        // Some editors begin a file with a byte order mark.
        let mark = self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf");
        Ok(Some((self.number, &self.line[if mark { 3 } else { 0 }..])))
    }

    /// Skips the rest of a line that was too long.
    fn skip_rest(&mut self) -> anyhow::Result<()> {
        if self.line.len() <= MAX_LINE || self.line.ends_with(b"\n") {
            return Ok(());
        }
        let skipped = self.reader.skip_until(b'\n');
        skipped.with_context(|| format!("cannot read the {} {}", self.kind, self.name))?;
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the next read may block until the writer sends more.
    pub(crate) fn is_drained(&self) -> bool {
        self.reader.buffer().is_empty()
    }

    /// Prints a warning on standard error, above the bar.
    pub(crate) fn warn(&self, what: &str) {
        self.bar.suspend(|| eprintln!("warning: {what}"));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
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
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn lines(bytes: impl Into<Vec<u8>>) -> Vec<(u64, String)> {
        let reader = Box::new(io::Cursor::new(bytes.into()));
        let mut lines = LineReader::new("t", "log", reader, ProgressBar::hidden()).unwrap();
        let mut all = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            all.push((number, String::from_utf8_lossy(line).trim_end().to_owned()));
        }
        all
    }

    #[test]
    fn blank_lines_and_marks_are_skipped_but_counted() {
        let read = lines("\u{feff}a\r\n\n  \nb");
        assert_eq!(read, [(1, "a".to_owned()), (4, "b".to_owned())]);
        assert_eq!(lines(""), []);
        assert_eq!(lines("x"), [(1, "x".to_owned())]);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_the_next_is_whole() {
        let read = lines(format!("{}\nnext", "x".repeat(3 * MAX_LINE)));
        assert_eq!(read[0].1.len(), MAX_LINE + 1);
        assert_eq!(read[1], (2, "next".to_owned()));
    }

    #[test]
    fn gzip_is_unpacked() {
        let mut zip = GzEncoder::new(Vec::new(), Compression::default());
        zip.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(lines(zip.finish().unwrap())[1], (2, "two".to_owned()));
        let broken = lines_of_broken_gzip();
        assert!(broken.to_string().starts_with("cannot read the log t"), "{broken}");
    }

    fn lines_of_broken_gzip() -> anyhow::Error {
        let reader = Box::new(io::Cursor::new(b"\x1f\x8bnonsense".to_vec()));
        let mut lines = LineReader::new("t", "log", reader, ProgressBar::hidden()).unwrap();
        lines.next().map(|_| ()).unwrap_err()
    }
}
