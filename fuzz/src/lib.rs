//! Code that the fuzz targets share.
//!
//! An input is text, so that people can read and write seeds: one or more parts, each followed by a
//! line of `===`. The first part is untrusted input; the others are requests, one per line.
//!
//! A target proves more than the absence of panics. Results that can be computed in two ways are
//! compared: a text is printed and read again, a request is decided by two limiters, and it is
//! explained and then decided.

mod consistency;
mod findings;

use tollgate_rules::Request;

pub use consistency::check_decisions;
pub use findings::check_findings;

/// Returns the first part of an input, and the lines of the others.
pub fn parts(input: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = input.split("\n===\n");
    let first = parts.next().unwrap_or_default();
    (first, parts.flat_map(str::lines))
}

/// Parses requests such as `POST /login ip=203.0.113.7 header.x-org=acme`, one per line.
///
/// Invalid lines are skipped, and all beyond sixteen, which would only take longer.
pub fn requests<'i>(lines: impl Iterator<Item = &'i str>) -> Vec<Request<'i>> {
    let read = lines.filter_map(|line| Request::from_words(line.split_whitespace()).ok());
    read.take(16).collect()
}
