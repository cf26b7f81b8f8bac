//! What is wrong with rules, and where: every finding of a reading, at once.

mod codes;
mod render;
mod whereabouts;

use std::error::Error;
use std::fmt;

use serde::Serialize;

use super::source::{Place, Sources};

pub use codes::CODES;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The rules cannot be used.
    Error,
    /// They can, but probably do not do what was meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// One finding: what is wrong, where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub(crate) severity: Severity,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) place: Place,
    /// What to do about it, as a sentence.
    pub(crate) help: Option<String>,
    /// What to write instead.
    pub(crate) fix: Option<String>,
    /// What few findings have; apart, so that an error is not large to return.
    aside: Box<Aside>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Aside {
    /// What to say right under the place.
    label: Option<String>,
    /// Another place that has to do with it, and how.
    related: Option<(Place, String)>,
    /// Instead of what to write the fix, if not of all that is at the finding's place.
    fix_place: Option<Place>,
}

impl Diagnostic {
    pub(crate) fn error(code: &'static str, place: Place, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, place, message.into())
    }

    pub(crate) fn warning(code: &'static str, place: Place, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, place, message.into())
    }

    fn new(severity: Severity, code: &'static str, place: Place, message: String) -> Self {
        let aside = Box::default();
        Diagnostic { severity, code, message, place, help: None, fix: None, aside }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.aside.label = Some(label.into());
        self
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Diagnostic { help: Some(help.into()), ..self }
    }

    pub(crate) fn fix(self, text: impl Into<String>) -> Self {
        Diagnostic { fix: Some(text.into()), ..self }
    }

    /// Would be right with `text` at `place`.
    pub(crate) fn fix_at(mut self, place: Place, text: impl Into<String>) -> Self {
        self.aside.fix_place = Some(place);
        self.fix(text)
    }

    pub(crate) fn related(mut self, place: Place, how: impl Into<String>) -> Self {
        self.aside.related = Some((place, how.into()));
        self
    }

    /// The same at places that `to` tells.
    pub(crate) fn moved(mut self, to: impl Fn(Place) -> Place) -> Self {
        self.place = to(self.place);
        self.aside.fix_place = self.aside.fix_place.map(&to);
        self.aside.related = self.aside.related.take().map(|(place, how)| (to(place), how));
        self
    }

    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Its name, the same in every release: `unknown-field`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn help_text(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

/// The findings of one reading, in the order of the text.
///
/// As an error it prints every finding with the lines it is about.
///
/// ```
/// use tollgate::rules::{Rules, Source};
///
/// let error = Rules::read([Source::new("shop.yaml", "rules:\n  - { nmae: api, limit: 10/m }\n")])
///     .unwrap_err();
/// assert!(error.errors().count() >= 2);
/// assert!(error.to_string().contains("shop.yaml:2:"));
/// ```
#[derive(Clone, Debug)]
pub struct Diagnostics {
    pub(crate) sources: Sources,
    pub(crate) list: Vec<Diagnostic>,
    /// Findings that are counted and not kept: a hostile file must not fill the memory.
    left_out: usize,
    errors_left_out: bool,
}

/// The most findings kept.
const MAX_KEPT: usize = 500;

/// A finding with its place looked up, ready to be sent elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding<'a> {
    /// How bad it is.
    pub severity: Severity,
    /// Its name.
    pub code: &'static str,
    /// What is wrong.
    pub message: &'a str,
    /// The source's name.
    pub file: &'a str,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// The line itself, cut if it is very long.
    pub snippet: &'a str,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'a str>,
    /// What to write instead of `from..to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<&'a str>,
    /// Bytes of the source that it is about, or that the replacement replaces.
    pub from: usize,
    /// The end of them.
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

    /// Whether more is found than is kept: then reading on only costs time.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MAX_KEPT
    }

    /// What was found last, unless it was left out.
    pub(crate) fn last_mut(&mut self) -> Option<&mut Diagnostic> {
        if self.left_out == 0 { self.list.last_mut() } else { None }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// How many there are. After 500 nobody counts exactly.
    pub fn len(&self) -> usize {
        self.list.len() + self.left_out
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Those that keep the rules from being used.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|found| found.severity == Severity::Error)
    }

    /// Those that do not.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|found| found.severity == Severity::Warning)
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors_left_out || self.errors().next().is_some()
    }

    /// In the order of the text. What an alias repeats is said once.
    pub(crate) fn sort(&mut self) {
        self.list.sort_by_key(|found| (found.place.source, found.place.start));
        self.list.dedup();
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl Error for Diagnostics {}
