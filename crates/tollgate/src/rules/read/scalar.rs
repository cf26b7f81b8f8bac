//! Texts, names, numbers, words to choose from, lengths of time: one value each.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Reader;
use crate::limit::grammar::{self, Mistake};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::source::{At, Place};
use crate::rules::suggest::{closest, listed};
use crate::rules::yaml::{Node, Value};

/// The longest text of a rule, in bytes.
const MAX_TEXT: usize = 4_096;
/// The longest name.
const MAX_NAME: usize = 64;

/// A text as a message quotes it: cut if it is long.
pub(super) fn shown(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let start: String = characters.by_ref().take(40).collect();
    let more = if characters.next().is_some() { "…" } else { "" };
    format!("`{start}{more}`")
}

impl Reader<'_> {
    pub(super) fn wrong_kind(&mut self, node: &Node<'_>, expected: &str) {
        let message = format!("expected {expected}, found {}", node.kind());
        let start = node.place.start as usize;
        // Of a long thing, show where it begins.
        let place = match &node.value {
            Value::Scalar { .. } => node.place,
            Value::List(items) => items.first().map_or(node.place, |first| first.place),
            Value::Map(pairs) => pairs.first().map_or(node.place, |(key, _)| key.place),
        };
        let place =
            if node.is_null() { Place::new(node.place.source, start, start) } else { place };
        self.found.push(Diagnostic::error("wrong-kind", place, message));
    }

    /// Adds advice to what was just found.
    pub(super) fn help(&mut self, help: impl Into<String>) {
        if let Some(last) = self.found.last_mut() {
            last.help = Some(help.into());
        }
    }

    /// Adds what to write instead to what was just found.
    fn fix(&mut self, text: String) {
        if let Some(last) = self.found.last_mut() {
            last.fix = Some(text);
        }
    }

    /// A text that says something.
    pub(super) fn text<'n>(&mut self, node: &'n Node<'_>, what: &str) -> Option<At<&'n str>> {
        let Some(text) = node.text() else {
            self.wrong_kind(node, what);
            return None;
        };
        if text.trim().is_empty() {
            let message = format!("expected {what}, found an empty text");
            self.found.push(Diagnostic::error("empty", node.place, message));
            return None;
        }
        if text.len() > MAX_TEXT {
            let message = format!("a text has at most {MAX_TEXT} bytes, this has {}", text.len());
            self.found.push(Diagnostic::error("too-large", node.place, message));
            return None;
        }
        Some(At::new(text, node.place))
    }

    /// The same, to keep.
    pub(super) fn owned(&mut self, node: &Node<'_>, what: &str) -> Option<At<String>> {
        self.text(node, what).map(|text| text.map(str::to_owned))
    }

    /// A list, or one thing that stands for a list of it.
    pub(super) fn several<'n, 'a>(
        &mut self,
        node: &'n Node<'a>,
        what: &str,
        most: usize,
    ) -> &'n [Node<'a>] {
        let Value::List(items) = &node.value else { return std::slice::from_ref(node) };
        if items.is_empty() {
            let message = format!("expected {what}, found an empty list");
            self.found.push(Diagnostic::error("empty", node.place, message));
        }
        self.bounded(items, most)
    }

    /// A list and nothing else.
    pub(super) fn list<'n, 'a>(
        &mut self,
        node: &'n Node<'a>,
        what: &str,
        most: usize,
    ) -> &'n [Node<'a>] {
        match &node.value {
            Value::List(items) => self.bounded(items, most),
            Value::Map(_) => {
                self.wrong_kind(node, what);
                self.help("begin each entry of a list with `- `");
                &[]
            }
            Value::Scalar { text, plain } => {
                self.wrong_kind(node, what);
                if *plain && node.place.is_verbatim() && !node.is_null() {
                    self.fix(format!("[{text}]"));
                }
                &[]
            }
        }
    }

    /// What `read` makes of each node, until there is enough to mend.
    pub(super) fn each<'n, 'a, T>(
        &mut self,
        nodes: &'n [Node<'a>],
        read: impl Fn(&mut Self, &'n Node<'a>) -> Option<T>,
    ) -> Vec<T> {
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            if self.found.is_full() {
                break;
            }
            all.extend(read(self, node));
        }
        all
    }

    fn bounded<'n, 'a>(&mut self, items: &'n [Node<'a>], most: usize) -> &'n [Node<'a>] {
        if let Some(first) = items.get(most) {
            let message = format!("at most {most} are allowed here, there are {}", items.len());
            self.found.push(Diagnostic::error("too-many", first.place, message));
        }
        items.get(..most).unwrap_or(items)
    }

    /// A name: letters, digits, `_`, `.` and `-`.
    pub(super) fn name(&mut self, node: &Node<'_>, what: &str) -> Option<At<String>> {
        let name = self.text(node, &format!("a name for {what}"))?;
        self.check_name(&name, what).then(|| name.map(str::to_owned))
    }

    pub(super) fn check_name(&mut self, name: &At<&str>, what: &str) -> bool {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let good = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(allowed);
        if !good {
            let message = format!("{} is no name for {what}", shown(name.value));
            let found = Diagnostic::error("bad-name", name.place, message)
                .help(format!("use up to {MAX_NAME} letters, digits, `_`, `.` and `-`"));
            let plain: String =
                name.trim().chars().map(|c| if allowed(c) { c } else { '-' }).collect();
            let meant = !plain.is_empty()
                && plain.len() <= MAX_NAME
                && plain.contains(char::is_alphanumeric);
            self.found.push(if meant { found.fix(plain) } else { found });
        }
        good
    }

    /// A whole number in a range.
    pub(super) fn number(
        &mut self,
        node: &Node<'_>,
        what: &str,
        range: RangeInclusive<u64>,
    ) -> Option<At<u64>> {
        let text = self.text(node, what)?;
        let number = match grammar::number(text.trim()) {
            Ok(number) => number,
            Err(mistake) => {
                self.mistake("bad-number", &text, mistake);
                return None;
            }
        };
        if range.contains(&number) {
            return Some(At::new(number, node.place));
        }
        let message = match (*range.start(), *range.end()) {
            (least, u64::MAX) => format!("expected {what}, at least {least}; this is {number}"),
            (least, most) => format!("expected {what} from {least} to {most}; this is {number}"),
        };
        self.found.push(Diagnostic::error("bad-number", node.place, message));
        None
    }

    /// One of the few words that `field` can be.
    pub(super) fn choice<T: Copy>(
        &mut self,
        node: &Node<'_>,
        field: &str,
        words: &[(&'static str, T)],
    ) -> Option<At<T>> {
        let names = || words.iter().map(|(word, _)| *word);
        let text = self.text(node, &listed_or(names()))?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(At::new(*value, node.place));
        }
        let message = format!("`{field}` cannot be {}", shown(text.value));
        let found = Diagnostic::error("unknown-value", node.place, message)
            .help(format!("use {}", listed_or(names())));
        self.found.push(match closest(text.value, names()) {
            Some(meant) => found.fix(meant),
            None => found,
        });
        None
    }

    pub(super) fn flag(&mut self, node: &Node<'_>, field: &str) -> Option<bool> {
        self.choice(node, field, &[("true", true), ("false", false)]).map(|flag| flag.value)
    }

    /// A length of time that is not nothing.
    pub(super) fn duration(&mut self, node: &Node<'_>, what: &str) -> Option<Duration> {
        let text = self.text(node, what)?;
        match grammar::span(text.value) {
            Ok(span) if span.as_nanos() == 0 => {
                let message = format!("expected {what}, found no time at all");
                self.found.push(Diagnostic::error("bad-duration", node.place, message));
                None
            }
            Ok(span) => Some(span.into()),
            Err(mistake) => {
                self.mistake("bad-duration", &text, mistake);
                None
            }
        }
    }

    /// What the grammar of limits says about a text.
    pub(super) fn mistake(&mut self, code: &'static str, text: &At<&str>, mistake: Mistake) {
        let Mistake { range, message, fix } = mistake;
        let found = Diagnostic::error(code, text.place.part(range), message);
        self.found.push(match fix {
            None => found,
            Some((range, better)) if text.place.is_verbatim() => {
                found.fix_at(text.place.part(range), better)
            }
            Some((range, better)) => {
                let mut whole = text.value.to_owned();
                whole.replace_range(range, &better);
                found.fix_at(text.place, whole)
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
