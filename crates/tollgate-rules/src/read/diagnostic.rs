//! Diagnostics: the errors and warnings of a rules file, all of one reading at once.

mod codes;
mod line_cursor;
mod render;

use std::error::Error;
use std::fmt;

use serde::Serialize;

use crate::read::source::{SourceSpan, Sources};

pub use codes::CODES;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The rules cannot be used.
    Error,
    /// The rules can be used, but probably do not do what their author intends.
    Warning,
    /// The diagnostic is for information only.
    Note,
}

/// An error or a warning: what is wrong, where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub(crate) severity: Severity,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) span: SourceSpan,
    /// The advice, as a sentence.
    pub(crate) help: Option<String>,
    /// The text to write instead.
    pub(crate) fix: Option<String>,
    /// The parts that few diagnostics have, boxed so that an error is small to return.
    extras: Box<DiagnosticExtras>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DiagnosticExtras {
    /// The label under the marked text.
    label: Option<String>,
    /// A related span and its label.
    related: Option<(SourceSpan, String)>,
    /// The span that the fix replaces, if it is not that of the diagnostic.
    fix_span: Option<SourceSpan>,
}

impl Diagnostic {
    pub(crate) fn error(code: &'static str, span: SourceSpan, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, span, message.into())
    }

    pub(crate) fn warning(
        code: &'static str,
        span: SourceSpan,
        message: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Warning, code, span, message.into())
    }

    fn new(severity: Severity, code: &'static str, span: SourceSpan, message: String) -> Self {
        let extras = Box::default();
        Diagnostic { severity, code, message, span, help: None, fix: None, extras }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.extras.label = Some(label.into());
        self
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Diagnostic { help: Some(help.into()), ..self }
    }

    pub(crate) fn fix(self, text: impl Into<String>) -> Self {
        Diagnostic { fix: Some(text.into()), ..self }
    }

    /// Suggests to replace the text at `span` by `text`.
    pub(crate) fn fix_at(mut self, span: SourceSpan, text: impl Into<String>) -> Self {
        self.extras.fix_span = Some(span);
        self.fix(text)
    }

    pub(crate) fn related(mut self, span: SourceSpan, note: impl Into<String>) -> Self {
        self.extras.related = Some((span, note.into()));
        self
    }

    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the code, which is stable across releases: `unknown-field`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the message: what is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the advice, if there is one.
    pub fn help_text(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

/// The diagnostics of one reading, in the order of the text.
///
/// `Display` and `Debug` print every diagnostic with the lines it is about, so that a `main` that
/// returns them shows what to correct.
///
/// ```
/// use tollgate_rules::{Rules, Source};
///
/// let error = Rules::read([Source::new("shop.yaml", "rules:\n  - { nmae: api, limit: 10/m }\n")])
///     .unwrap_err();
/// assert!(error.errors().count() >= 2);
/// assert!(error.to_string().contains("shop.yaml:2:"));
/// assert_eq!(format!("{error:?}"), error.to_string());
/// ```
#[derive(Clone)]
pub struct Diagnostics {
    pub(crate) sources: Sources,
    pub(crate) list: Vec<Diagnostic>,
    /// The number of diagnostics above the maximum: a hostile file must not fill the memory.
    left_out: usize,
    errors_left_out: bool,
}

/// The maximum number of diagnostics stored.
const MAX_KEPT: usize = 500;

/// A diagnostic with its line and column, to be serialised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding<'a> {
    /// The severity.
    pub severity: Severity,
    /// The code, which is stable across releases.
    pub code: &'static str,
    /// The message: what is wrong.
    pub message: &'a str,
    /// The name of the source.
    pub file: &'a str,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// The text of the line, cut if it is very long.
    pub snippet: &'a str,
    /// The advice, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'a str>,
    /// The text to write in place of `from..to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<&'a str>,
    /// The first byte of the source that it is about, or that the replacement replaces.
    pub from: usize,
    /// The byte after the last.
    pub to: usize,
}

impl Diagnostics {
    pub(crate) fn new(sources: Sources) -> Diagnostics {
        Diagnostics { sources, list: Vec::new(), left_out: 0, errors_left_out: false }
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.list.len() < MAX_KEPT {
            self.list.push(diagnostic);
        } else {
            self.left_out += 1;
            self.errors_left_out |= diagnostic.severity == Severity::Error;
        }
    }

    /// Whether the maximum is reached: reading on would only cost time.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MAX_KEPT
    }

    /// Returns the last diagnostic, unless it was left out.
    pub(crate) fn last_mut(&mut self) -> Option<&mut Diagnostic> {
        if self.left_out == 0 { self.list.last_mut() } else { None }
    }

    /// Iterates over the stored diagnostics.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Returns the number of diagnostics; above 500 it is a lower bound.
    pub fn len(&self) -> usize {
        self.list.len() + self.left_out
    }

    /// Whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates over the errors: with one of them the rules cannot be used.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Iterates over the warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning)
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors_left_out || self.errors().next().is_some()
    }

    /// Sorts by position in the text, and removes diagnostics that an alias repeats.
    pub(crate) fn sort(&mut self) {
        self.list.sort_by_key(|diagnostic| (diagnostic.span.source, diagnostic.span.start));
        self.list.dedup();
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Diagnostics {}
