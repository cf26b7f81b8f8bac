//! Access logs: lines of several formats, each as the request it tells of.

mod clf;
mod entry;
mod envoy;
mod fields;
mod json;
mod order;
mod scan;
mod stamp;

use clap::ValueEnum;

pub(crate) use entry::Entry;
pub(crate) use fields::Rename;
pub(crate) use order::Order;
pub(crate) use stamp::{date, instant, rfc3339};

use crate::lines::MAX_LINE;

/// How the lines of a log are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Whatever each line looks like
    #[default]
    Auto,
    /// `host ident user [time] "request" status bytes`
    Common,
    /// The same with "referer" and "user agent", as nginx and Apache write it
    Combined,
    /// One JSON object a line
    Json,
    /// Envoy's default text format, and Istio's
    Envoy,
}

impl Format {
    /// Reads a line, or says what is wrong with it.
    pub(crate) fn parse(self, line: &[u8], renames: &[Rename]) -> Result<Entry, String> {
        if line.len() > MAX_LINE {
            return Err(format!("longer than {MAX_LINE} bytes"));
        }
        // Clients send what they like, and some servers log it as it came.
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        let parse = match (self, line.as_bytes().first()) {
            (Format::Json, _) | (Format::Auto, Some(b'{')) => json::parse,
            (Format::Envoy, _) | (Format::Auto, Some(b'[')) => envoy::parse,
            (Format::Common | Format::Combined | Format::Auto, _) => clf::parse,
        };
        parse(line, renames)
    }
}
