//! The functions of the fuzz targets of this crate: `cargo xtask fuzz` calls them with arbitrary bytes,
//! and a test with the stored corpus.
//!
//! An input is text, so that people can read and write seeds: one or more parts, each followed by a
//! line of `===`. The first part is untrusted input; the others are requests, one per line.
//!
//! A target proves more than the absence of panics. Results that can be computed in two ways are
//! compared: a text is printed and read again, a request is decided by two limiters, and it is
//! explained and then decided.

mod consistency;
#[cfg(feature = "envoy")]
mod envoy;
mod expression;
mod findings;
mod key;
mod rules;

use crate::Request;
use consistency::check_decisions;
use findings::check_findings;

#[cfg(feature = "envoy")]
pub use envoy::envoy;
pub use expression::expression;
pub use key::key;
pub use rules::rules;

/// Returns the first part of an input, and the lines of the others.
fn parts(input: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = input.split("\n===\n");
    let first = parts.next().unwrap_or_default();
    (first, parts.flat_map(str::lines))
}

/// Parses requests such as `POST /login ip=203.0.113.7 header.x-org=acme`, one per line.
///
/// Invalid lines are skipped, and all beyond sixteen, which would only take longer.
fn requests<'i>(lines: impl Iterator<Item = &'i str>) -> Vec<Request<'i>> {
    let read = lines.filter_map(|line| Request::from_words(line.split_whitespace()).ok());
    read.take(16).collect()
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use tollgate_corpus::Corpus;

    #[test]
    fn the_corpus_of_rules_passes() {
        let corpus = Corpus::of("rules").setup_mib(1024).and_folder("examples/rules");
        corpus.and_folder("crates/tollgate-rules/tests/diagnostics").replay(super::rules);
    }

    #[test]
    fn the_corpus_of_envoy_files_passes() {
        Corpus::of("envoy").setup_mib(1024).replay(super::envoy);
    }

    #[test]
    fn the_corpus_of_expressions_passes() {
        Corpus::of("expression").setup_mib(1024).replay(super::expression);
    }

    #[test]
    fn the_corpus_of_keys_passes() {
        Corpus::of("key").linear().replay(super::key);
    }
}
