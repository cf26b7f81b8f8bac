//! From a YAML tree to what was written: every field checked where it stands, every mistake
//! reported, so that one run shows all there is to mend.

mod cases;
mod cost;
mod fields;
mod limit;
mod long;
mod overrides;
mod rule;
mod scalar;
mod shed;
mod tables;
mod then;
mod top;

pub(crate) use then::MAX_RUNGS;

use jiff::tz::TimeZone;

use super::diagnostic::Diagnostics;
use super::written::Document;
use super::yaml::Node;

/// Reads one file; what is wrong with it goes to `found`.
pub(crate) fn document(root: &Node<'_>, found: &mut Diagnostics) -> Document {
    Reader { found, zone: TimeZone::UTC, declared: Vec::new(), limits: 0 }.document(root)
}

/// Reads a file that holds nothing but test cases.
pub(crate) fn cases_only(root: &Node<'_>, found: &mut Diagnostics) -> Document {
    Reader { found, zone: TimeZone::UTC, declared: Vec::new(), limits: 0 }.cases_only(root)
}

/// What the parts of a file are read with.
struct Reader<'d> {
    found: &'d mut Diagnostics,
    /// The file's default, for dates without a time.
    zone: TimeZone,
    /// The names of attributes that the file declares.
    declared: Vec<String>,
    /// Limits so far: they are the largest part of what is kept.
    limits: usize,
}

/// The most rules of a file, and the most overrides, and test cases.
const MAX_ENTRIES: usize = 10_000;
/// The most limits of a file.
const MAX_LIMITS_IN_ALL: usize = 30_000;

#[cfg(test)]
mod tests;
