//! Access logs: lines of several formats, each read as a request.

mod clf;
mod entry_sorter;
mod envoy;
mod fields;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;
mod json;
mod line_scanner;
mod log_entry;
mod timestamp;

use clap::ValueEnum;

pub(crate) use entry_sorter::EntrySorter;
pub(crate) use fields::FieldRename;
pub(crate) use log_entry::LogEntry;
pub(crate) use timestamp::{date, instant, rfc3339};

use crate::line_reader::MAX_LINE;

/// A format of access log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessLogFormat {
    /// Detected for each line
    #[default]
    Auto,
    /// `host ident user [time] "request" status bytes`
    Common,
    /// The common format with "referer" and "user agent", as in nginx and Apache
    Combined,
    /// One JSON object per line
    Json,
    /// Envoy's default text format, and Istio's
    Envoy,
}

impl AccessLogFormat {
    /// Reads a line, or returns what is wrong with it.
    pub(crate) fn parse(self, line: &[u8], renames: &[FieldRename]) -> Result<LogEntry, String> {
        if line.len() > MAX_LINE {
            return Err(format!("the line is longer than {MAX_LINE} bytes"));
        }
        // Clients may send invalid UTF-8, which some servers log unchanged.
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        let parse = match (self, line.as_bytes().first()) {
            (AccessLogFormat::Json, _) | (AccessLogFormat::Auto, Some(b'{')) => json::parse,
            (AccessLogFormat::Envoy, _) | (AccessLogFormat::Auto, Some(b'[')) => envoy::parse,
            (AccessLogFormat::Common | AccessLogFormat::Combined | AccessLogFormat::Auto, _) => {
                clf::parse
            }
        };
        parse(line, renames)
    }
}
