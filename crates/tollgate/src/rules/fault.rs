//! What is wrong with a small text inside a rule, before anybody knows where the text stands.

use std::ops::Range;

use super::diagnostic::Diagnostic;
use super::source::Place;

/// A finding about `range` of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) range: Range<usize>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// What to write at the range instead.
    pub(crate) fix: Option<String>,
}

impl Fault {
    pub(crate) fn new(range: Range<usize>, message: impl Into<String>) -> Fault {
        Fault { range, message: message.into(), help: None, fix: None }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Fault {
        Fault { help: Some(help.into()), ..self }
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> Fault {
        Fault { fix: Some(fix.into()), ..self }
    }

    /// The same about the text at `place`.
    pub(crate) fn at(self, code: &'static str, place: Place) -> Diagnostic {
        let mut found = Diagnostic::error(code, place.part(self.range), self.message);
        found.help = self.help;
        found.fix = self.fix;
        found
    }
}
