//! Reads the YAML tree of a rules file into definitions: every field is checked and every error
//! reported, so that one run shows all there is to fix.

mod cost;
mod declarations;
mod limit;
mod long_limit;
mod mapping;
mod overrides;
mod rule;
mod scalar;
mod shed;
mod test_cases;
mod then;
mod top_level;

pub(crate) use then::MAX_RUNGS;

use jiff::tz::TimeZone;

use crate::read::definition::Document;
use crate::read::diagnostic::Diagnostics;
use crate::read::yaml::YamlNode;

/// Reads a rules file; its errors go to `diagnostics`.
pub(crate) fn read(root: &YamlNode<'_>, diagnostics: &mut Diagnostics) -> Document {
    DocumentReader { diagnostics, zone: TimeZone::UTC, declared: Vec::new(), limits: 0 }
        .document(root)
}

/// Reads a file that contains nothing but test cases.
pub(crate) fn read_test_cases(root: &YamlNode<'_>, diagnostics: &mut Diagnostics) -> Document {
    DocumentReader { diagnostics, zone: TimeZone::UTC, declared: Vec::new(), limits: 0 }
        .cases_only(root)
}

/// Reads the parts of a rules file.
struct DocumentReader<'d> {
    diagnostics: &'d mut Diagnostics,
    /// The time zone of the file, for dates without an offset.
    zone: TimeZone,
    /// The names of the attributes that the file declares.
    declared: Vec<String>,
    /// The number of limits so far: they take the most memory.
    limits: usize,
}

/// The maximum number of rules of a file, and of overrides and test cases.
const MAX_ENTRIES: usize = 10_000;
/// The maximum number of limits of a file.
const MAX_LIMITS_IN_ALL: usize = 30_000;

#[cfg(test)]
mod tests;
