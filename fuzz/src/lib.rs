//! What the fuzz targets share.
//!
//! An input is text, so that seeds can be written and read by people: one or more parts, each
//! followed by a line of `===`. The first part is what a stranger wrote; the others are what it is
//! asked about, one request a line.
//!
//! A target proves more than that nothing panics. What can be said twice is said twice and
//! compared: a text is printed and read again, a request decided by two limiters, explained and
//! then decided.

mod asking;
mod findings;

use tollgate::Request;

pub use asking::ask;
pub use findings::check_findings;

/// The first part of an input, and the lines of the others.
pub fn parts(input: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = input.split("\n===\n");
    let first = parts.next().unwrap_or_default();
    (first, parts.flat_map(str::lines))
}

/// The requests that lines describe: `POST /login ip=203.0.113.7 header.x-org=acme`. What is no
/// request is left out, and so is what would only take longer.
pub fn requests<'i>(lines: impl Iterator<Item = &'i str>) -> Vec<Request<'i>> {
    let read = lines.filter_map(|line| Request::from_words(line.split_whitespace()).ok());
    read.take(16).collect()
}
