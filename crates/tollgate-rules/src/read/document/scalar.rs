//! Reads single values: texts, names, numbers, words to choose from, durations; and lists.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::DocumentReader;
use crate::read::diagnostic::Diagnostic;
use crate::read::source::{SourceSpan, Spanned};
use crate::read::suggest::{closest, listed};
use crate::read::yaml::{YamlNode, YamlValue};
use tollgate::limit::grammar::{self, GrammarError};

/// The maximum length of a text of a rule, in bytes.
const MAX_TEXT: usize = 4_096;
/// The maximum length of a name, in bytes.
const MAX_NAME: usize = 64;

/// Quotes a text for a message, cut if it is long.
pub(super) fn excerpt(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let start: String = characters.by_ref().take(40).collect();
    let more = if characters.next().is_some() { "…" } else { "" };
    format!("`{start}{more}`")
}

impl DocumentReader<'_> {
    pub(super) fn wrong_kind(&mut self, node: &YamlNode<'_>, expected: &str) {
        let message = format!("expected {expected}, found {}", node.kind());
        let start = node.span.start as usize;
        // Of a collection, the span is its first item.
        let span = match &node.value {
            YamlValue::Scalar { .. } => node.span,
            YamlValue::List(items) => items.first().map_or(node.span, |first| first.span),
            YamlValue::Map(pairs) => pairs.first().map_or(node.span, |(key, _)| key.span),
        };
        let span =
            if node.is_null() { SourceSpan::new(node.span.source, start, start) } else { span };
        self.diagnostics.push(Diagnostic::error("wrong-kind", span, message));
    }

    /// Adds help to the last diagnostic.
    pub(super) fn help(&mut self, help: impl Into<String>) {
        if let Some(last) = self.diagnostics.last_mut() {
            last.help = Some(help.into());
        }
    }

    /// Adds the text to write instead to the last diagnostic.
    fn fix(&mut self, text: String) {
        if let Some(last) = self.diagnostics.last_mut() {
            last.fix = Some(text);
        }
    }

    /// Reads a text that is not empty.
    pub(super) fn text<'n>(
        &mut self,
        node: &'n YamlNode<'_>,
        what: &str,
    ) -> Option<Spanned<&'n str>> {
        let Some(text) = node.text() else {
            self.wrong_kind(node, what);
            return None;
        };
        if text.trim().is_empty() {
            let message = format!("expected {what}, found an empty text");
            self.diagnostics.push(Diagnostic::error("empty", node.span, message));
            return None;
        }
        if text.len() > MAX_TEXT {
            let message = format!("a text has at most {MAX_TEXT} bytes, this has {}", text.len());
            self.diagnostics.push(Diagnostic::error("too-large", node.span, message));
            return None;
        }
        Some(Spanned::new(text, node.span))
    }

    /// Reads a text that is not empty into a `String`.
    pub(super) fn owned(&mut self, node: &YamlNode<'_>, what: &str) -> Option<Spanned<String>> {
        self.text(node, what).map(|text| text.map(str::to_owned))
    }

    /// Reads a list, or one item in place of a list.
    pub(super) fn several<'n, 'a>(
        &mut self,
        node: &'n YamlNode<'a>,
        what: &str,
        most: usize,
    ) -> &'n [YamlNode<'a>] {
        let YamlValue::List(items) = &node.value else { return std::slice::from_ref(node) };
        if items.is_empty() {
            let message = format!("expected {what}, found an empty list");
            self.diagnostics.push(Diagnostic::error("empty", node.span, message));
        }
        self.bounded(items, most)
    }

    /// Reads a list and nothing else.
    pub(super) fn list<'n, 'a>(
        &mut self,
        node: &'n YamlNode<'a>,
        what: &str,
        most: usize,
    ) -> &'n [YamlNode<'a>] {
        match &node.value {
            YamlValue::List(items) => self.bounded(items, most),
            YamlValue::Map(_) => {
                self.wrong_kind(node, what);
                self.help("begin each entry of a list with `- `");
                &[]
            }
            YamlValue::Scalar { text, plain } => {
                self.wrong_kind(node, what);
                if *plain && node.span.is_verbatim() && !node.is_null() {
                    self.fix(format!("[{text}]"));
                }
                &[]
            }
        }
    }

    /// Reads each node with `read`, until there are too many diagnostics.
    pub(super) fn each<'n, 'a, T>(
        &mut self,
        nodes: &'n [YamlNode<'a>],
        read: impl Fn(&mut Self, &'n YamlNode<'a>) -> Option<T>,
    ) -> Vec<T> {
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            if self.diagnostics.is_full() {
                break;
            }
            all.extend(read(self, node));
        }
        all
    }

    fn bounded<'n, 'a>(&mut self, items: &'n [YamlNode<'a>], most: usize) -> &'n [YamlNode<'a>] {
        if let Some(first) = items.get(most) {
            let message = format!("at most {most} are allowed here, there are {}", items.len());
            self.diagnostics.push(Diagnostic::error("too-many", first.span, message));
        }
        items.get(..most).unwrap_or(items)
    }

    /// Reads a name: letters, digits, `_`, `.` and `-`.
    pub(super) fn name(&mut self, node: &YamlNode<'_>, what: &str) -> Option<Spanned<String>> {
        let name = self.text(node, &format!("a name for {what}"))?;
        self.check_name(&name, what).then(|| name.map(str::to_owned))
    }

    pub(super) fn check_name(&mut self, name: &Spanned<&str>, what: &str) -> bool {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let valid = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(allowed);
        if !valid {
            let message = format!("{} is no name for {what}", excerpt(name.value));
            let diagnostic = Diagnostic::error("bad-name", name.span, message)
                .help(format!("use up to {MAX_NAME} letters, digits, `_`, `.` and `-`"));
            let plain: String =
                name.trim().chars().map(|c| if allowed(c) { c } else { '-' }).collect();
            let meant = !plain.is_empty()
                && plain.len() <= MAX_NAME
                && plain.contains(char::is_alphanumeric);
            self.diagnostics.push(if meant { diagnostic.fix(plain) } else { diagnostic });
        }
        valid
    }

    /// Reads a whole number in a range.
    pub(super) fn number(
        &mut self,
        node: &YamlNode<'_>,
        what: &str,
        range: RangeInclusive<u64>,
    ) -> Option<Spanned<u64>> {
        let text = self.text(node, what)?;
        let number = match grammar::number(text.trim()) {
            Ok(number) => number,
            Err(error) => {
                self.grammar_error("bad-number", &text, error);
                return None;
            }
        };
        if range.contains(&number) {
            return Some(Spanned::new(number, node.span));
        }
        let message = match (*range.start(), *range.end()) {
            (least, u64::MAX) => format!("expected {what}, at least {least}; this is {number}"),
            (least, most) => format!("expected {what} from {least} to {most}; this is {number}"),
        };
        self.diagnostics.push(Diagnostic::error("bad-number", node.span, message));
        None
    }

    /// Reads one of the words that `field` can be.
    pub(super) fn choice<T: Copy>(
        &mut self,
        node: &YamlNode<'_>,
        field: &str,
        words: &[(&'static str, T)],
    ) -> Option<Spanned<T>> {
        let names = || words.iter().map(|(word, _)| *word);
        let text = self.text(node, &listed_or(names()))?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(Spanned::new(*value, node.span));
        }
        let message = format!("`{field}` cannot be {}", excerpt(text.value));
        let diagnostic = Diagnostic::error("unknown-value", node.span, message)
            .help(format!("use {}", listed_or(names())));
        self.diagnostics.push(match closest(text.value, names()) {
            Some(meant) => diagnostic.fix(meant),
            None => diagnostic,
        });
        None
    }

    pub(super) fn flag(&mut self, node: &YamlNode<'_>, field: &str) -> Option<bool> {
        self.choice(node, field, &[("true", true), ("false", false)]).map(|flag| flag.value)
    }

    /// Reads a duration above zero.
    pub(super) fn duration(&mut self, node: &YamlNode<'_>, what: &str) -> Option<Duration> {
        let text = self.text(node, what)?;
        match grammar::span(text.value) {
            Ok(span) if span.as_nanos() == 0 => {
                let message = format!("expected {what}, found no time at all");
                self.diagnostics.push(Diagnostic::error("bad-duration", node.span, message));
                None
            }
            Ok(span) => Some(span.into()),
            Err(error) => {
                self.grammar_error("bad-duration", &text, error);
                None
            }
        }
    }

    /// Reports an error of the grammar of limits.
    pub(super) fn grammar_error(
        &mut self,
        code: &'static str,
        text: &Spanned<&str>,
        error: GrammarError,
    ) {
        let GrammarError { range, message, fix } = error;
        let diagnostic = Diagnostic::error(code, text.span.subspan(range), message);
        self.diagnostics.push(match fix {
            None => diagnostic,
            Some((range, better)) if text.span.is_verbatim() => {
                diagnostic.fix_at(text.span.subspan(range), better)
            }
            Some((range, better)) => {
                let mut whole = text.value.to_owned();
                whole.replace_range(range, &better);
                diagnostic.fix_at(text.span, whole)
            }
        });
    }
}

fn listed_or<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words = listed(words);
    match words.rsplit_once(", ") {
        Some((first, last)) => format!("{first} or {last}"),
        None => words,
    }
}
