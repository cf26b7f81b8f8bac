//! Findings of an import: what is missing from the rules or differs from the original, and whether
//! that lets more requests pass.

use serde::Serialize;
use tollgate_rules::yaml::{YamlFile, YamlNode};

/// The effect of a difference between the rules and the original.
///
/// Where the effect depends on the requests, it is the most permissive one possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Effect {
    /// A request that the original refuses can pass.
    MorePermissive,
    /// A request that the original lets pass can be refused, and never the other way round.
    Stricter,
    /// Exactly the requests pass that the original lets pass.
    Equal,
}

impl Effect {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Effect::MorePermissive => "more permissive",
            Effect::Stricter => "stricter",
            Effect::Equal => "note",
        }
    }
}

/// The file and line that something is imported from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) file: String,
    pub(super) line: usize,
}

impl Origin {
    /// Returns the origin of a YAML node.
    pub(super) fn at(file: &YamlFile<'_>, node: &YamlNode<'_>) -> Origin {
        Origin::new(file.name(), file.line(node))
    }

    pub(super) fn new(file: &str, line: usize) -> Origin {
        Origin { file: file.to_owned(), line }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One finding of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ImportFinding {
    pub(super) effect: Effect,
    pub(super) file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

impl ImportFinding {
    /// Returns the place as it begins the comment of a rule: `nginx.conf:12: `.
    pub(super) fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}: ", self.file),
            None => format!("{}: ", self.file),
        }
    }
}
