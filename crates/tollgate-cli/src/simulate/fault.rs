//! Errors in a line of a trace: position, reason, and a suggestion.

use std::fmt;

/// The maximum number of characters of a line that are printed.
const MAX_SHOWN: usize = 72;

/// An error in a line.
#[derive(Debug)]
pub(super) struct Fault {
    /// The offset of the error in bytes.
    pub(super) at: usize,
    /// The length of the error in bytes.
    pub(super) len: usize,
    pub(super) message: String,
    pub(super) suggestion: Option<&'static str>,
}

impl Fault {
    pub(super) fn new(at: usize, len: usize, message: impl Into<String>) -> Fault {
        Fault { at, len, message: message.into(), suggestion: None }
    }

    /// Adds the closest of `known` as a suggestion.
    pub(super) fn suggest(self, typed: &str, known: &[&'static str]) -> Fault {
        let typed = typed.to_ascii_lowercase();
        let near = known.iter().filter_map(|name| {
            let apart = name.len().abs_diff(typed.len());
            let distance =
                if apart > 2 { apart } else { strsim::damerau_levenshtein(&typed, name) };
            (distance <= 2 && distance < name.len()).then_some((distance, *name))
        });
        Fault { suggestion: near.min().map(|(_, name)| name), ..self }
    }

    /// Returns the error for line `number` of the trace `name`.
    pub(super) fn on_line(self, name: &str, number: u64, line: &[u8]) -> TraceError {
        let before = String::from_utf8_lossy(&line[..self.at.min(line.len())]);
        let rest = String::from_utf8_lossy(&line[self.at.min(line.len())..]);
        let column = before.chars().count();
        let wrong = String::from_utf8_lossy(&line[self.at.min(line.len())..])
            .chars()
            .scan(0, |bytes, c| {
                *bytes += c.len_utf8();
                Some(*bytes)
            })
            .take_while(|bytes| *bytes <= self.len)
            .count()
            .max(1);
        // The error stays visible, with some of the text before it.
        let skip =
            if column + wrong > MAX_SHOWN { column.saturating_sub(MAX_SHOWN / 3) } else { 0 };
        // Each character takes one column, so that the carets are below the error.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let shown = before.chars().chain(rest.chars()).skip(skip).map(plain).take(MAX_SHOWN);
        TraceError {
            location: format!("{name}:{number}:{}", column + 1),
            line: shown.collect::<String>().trim_end().to_owned(),
            indent: column - skip,
            carets: wrong.min(MAX_SHOWN.saturating_sub(column - skip)).max(1),
            fault: self,
        }
    }
}

/// A trace that cannot be read further.
#[derive(Debug)]
pub(super) struct TraceError {
    location: String,
    line: String,
    indent: usize,
    carets: usize,
    fault: Fault,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n  {}", self.location, self.fault.message, self.line)?;
        write!(f, "  {:indent$}{}", "", "^".repeat(self.carets), indent = self.indent)?;
        match self.fault.suggestion {
            Some(suggestion) => write!(f, "\ndid you mean \"{suggestion}\"?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_the_error() {
        let line = format!("{}oops{}", "x".repeat(500), "y".repeat(500));
        let error = Fault::new(500, 4, "no").on_line("t", 7, line.as_bytes()).to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[0], "t:7:501: no");
        assert_eq!(lines[1].find("oops"), lines[2].find("^^^^"));
        assert!(lines.iter().all(|line| line.len() <= MAX_SHOWN + 2));
    }

    #[test]
    fn only_near_words_are_suggested() {
        let suggestion = |typed| Fault::new(0, 1, "").suggest(typed, &["check", "peek"]).suggestion;
        assert_eq!(suggestion("chek"), Some("check"));
        assert_eq!(suggestion("PEEK"), Some("peek"));
        assert_eq!(suggestion("delete"), None);
    }
}
