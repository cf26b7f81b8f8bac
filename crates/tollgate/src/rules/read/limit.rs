//! A limit as a rule names it: `10/s burst 20`, `plan.api`, `3 distinct user/h`.

use super::{MAX_LIMITS_IN_ALL, Reader};
use crate::Limit;
use crate::limit::grammar::{self, Mistake};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::source::At;
use crate::rules::written::Written;
use crate::rules::yaml::{Node, Value};

const WHAT: &str = "a limit such as 10/s, or a mapping such as { requests: 10, per: s }";

impl Reader<'_> {
    pub(super) fn written_limit(&mut self, node: &Node<'_>) -> Option<At<Written>> {
        self.limits += 1;
        if self.limits > MAX_LIMITS_IN_ALL {
            if self.limits == MAX_LIMITS_IN_ALL + 1 {
                let message = format!("a rules file has at most {MAX_LIMITS_IN_ALL} limits");
                self.found.push(Diagnostic::error("too-many", node.place, message));
            }
            return None;
        }
        if matches!(node.value, Value::Map(_)) {
            return self.long_limit(node).map(|limit| At::new(Written::Limit(limit), node.place));
        }
        let text = self.text(node, WHAT)?;
        let read = if text.trim_start().starts_with("plan.") {
            plan(text.value)
        } else if text
            .split_whitespace()
            .nth(1)
            .is_some_and(|word| word.eq_ignore_ascii_case("distinct"))
        {
            distinct(text.value)
        } else {
            grammar::limit(text.value).map(Written::Limit)
        };
        match read {
            Ok(written) => Some(At::new(written, node.place)),
            Err(mistake) => {
                self.mistake("bad-limit", &text, mistake);
                None
            }
        }
    }

    /// A limit that is written out, not one that refers to a plan.
    pub(super) fn plain_limit(&mut self, node: &Node<'_>) -> Option<At<Limit>> {
        let written = self.written_limit(node)?;
        let what = match written.value {
            Written::Limit(limit) => return Some(At::new(limit, node.place)),
            Written::Plan { .. } => "a plan's limit",
            Written::Distinct { .. } => "a count of distinct values",
        };
        let message = format!("{what} cannot stand here, only in a rule");
        let found = Diagnostic::error("bad-limit", node.place, message);
        self.found.push(found.help("write the limit out, as in `60/h`"));
        None
    }
}

/// `plan.api [options]`.
fn plan(text: &str) -> Result<Written, Mistake> {
    let start = text.len() - text.trim_start().len();
    let word_end = text[start..].find(char::is_whitespace).map_or(text.len(), |end| start + end);
    let name = &text[start + "plan.".len()..word_end];
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(allowed) {
        let message = "a plan's limit has a name, as in plan.api".to_owned();
        return Err(Mistake { range: start..word_end, message, fix: None });
    }
    let options = &text[word_end..];
    grammar::options(options).map_err(|mistake| shift(mistake, word_end))?;
    Ok(Written::Plan { limit: name.into(), options: options.trim().into() })
}

/// `3 distinct user/h`.
fn distinct(text: &str) -> Result<Written, Mistake> {
    let fault =
        |message: &str| Mistake { range: 0..text.len(), message: message.into(), fix: None };
    let example = "write a number, an attribute and a window, as in `3 distinct user/h`";
    let start = text.len() - text.trim_start().len();
    let (count_text, rest) =
        text[start..].split_once(char::is_whitespace).ok_or_else(|| fault(example))?;
    let count = grammar::number(count_text).map_err(|mistake| shift(mistake, start))?;
    if count == 0 {
        let range = start..start + count_text.len();
        let message = "0 distinct values would never let anything pass: use at least 1".into();
        return Err(Mistake { range, message, fix: None });
    }
    let rest = rest.trim_start();
    let values = rest.get("distinct".len()..).unwrap_or("");
    let (attribute, window) = values.rsplit_once('/').ok_or_else(|| fault(example))?;
    if attribute.trim().is_empty() {
        return Err(fault(example));
    }
    let at = text.len() - window.len();
    let period = grammar::period(window).map_err(|mistake| shift(mistake, at))?;
    let window = period.span().into();
    Ok(Written::Distinct { count, attribute: attribute.trim().into(), window })
}

/// The same, of a text that begins `by` later.
fn shift(mistake: Mistake, by: usize) -> Mistake {
    let Mistake { range, message, fix } = mistake;
    let range = range.start + by..range.end + by;
    let fix = fix.map(|(range, text)| (range.start + by..range.end + by, text));
    Mistake { range, message, fix }
}
