//! Notes of an import: what is missing from the rules or differs from the original.

use serde::Serialize;
use tollgate_rules::yaml::{YamlFile, YamlNode};

/// The severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NoteSeverity {
    /// The rules lack it.
    LeftOut,
    /// The rules have it, but it does not behave exactly alike.
    Differs,
    /// Worth knowing.
    Note,
}

impl NoteSeverity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            NoteSeverity::LeftOut => "left out",
            NoteSeverity::Differs => "differs",
            NoteSeverity::Note => "note",
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

/// One note of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ImportNote {
    pub(super) severity: NoteSeverity,
    pub(super) file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    pub(super) message: String,
}
