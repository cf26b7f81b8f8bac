//! Errors in a small text of a rule, such as a route, whose span in the file is added later.

use std::ops::Range;

use crate::read::diagnostic::Diagnostic;
use crate::read::source::SourceSpan;

/// An error in `range` of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) range: Range<usize>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// The text to write at the range instead.
    pub(crate) fix: Option<String>,
    /// The code of the diagnostic, if it is not that of all errors in such a text.
    pub(crate) code: Option<&'static str>,
}

impl Fault {
    pub(crate) fn new(range: Range<usize>, message: impl Into<String>) -> Fault {
        Fault { range, message: message.into(), help: None, fix: None, code: None }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Fault {
        Fault { help: Some(help.into()), ..self }
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> Fault {
        Fault { fix: Some(fix.into()), ..self }
    }

    pub(crate) fn code(self, code: &'static str) -> Fault {
        Fault { code: Some(code), ..self }
    }

    /// Makes a diagnostic of an error in the text at `span`.
    pub(crate) fn into_diagnostic(self, code: &'static str, span: SourceSpan) -> Diagnostic {
        let mut diagnostic =
            Diagnostic::error(self.code.unwrap_or(code), span.subspan(self.range), self.message);
        diagnostic.help = self.help;
        diagnostic.fix = self.fix;
        diagnostic
    }
}
