//! What got lost or changed on the way.

use serde::Serialize;

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// It is not in the rules.
    LeftOut,
    /// It is, but not to the letter.
    Differs,
    /// Worth knowing.
    Note,
}

impl Severity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Severity::LeftOut => "left out",
            Severity::Differs => "differs",
            Severity::Note => "note",
        }
    }
}

/// Where something stands in what is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) file: String,
    pub(super) line: usize,
}

impl Origin {
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
pub(super) struct Note {
    pub(super) severity: Severity,
    pub(super) file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    pub(super) message: String,
}
