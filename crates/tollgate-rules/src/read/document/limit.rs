//! Reads limits: `10/s burst 20`, `plan.api`, `3 distinct user/h`.

use super::{DocumentReader, MAX_LIMITS_IN_ALL};
use crate::read::definition::LimitDefinition;
use crate::read::diagnostic::Diagnostic;
use crate::read::source::Spanned;
use crate::read::yaml::{YamlNode, YamlValue};
use tollgate::Limit;
use tollgate::limit::grammar::{self, GrammarError};

const WHAT: &str = "a limit such as 10/s, or a mapping such as { requests: 10, per: s }";

impl DocumentReader<'_> {
    pub(super) fn limit_definition(
        &mut self,
        node: &YamlNode<'_>,
    ) -> Option<Spanned<LimitDefinition>> {
        self.limits += 1;
        if self.limits > MAX_LIMITS_IN_ALL {
            if self.limits == MAX_LIMITS_IN_ALL + 1 {
                let message = format!("a rules file has at most {MAX_LIMITS_IN_ALL} limits");
                self.diagnostics.push(Diagnostic::error("too-many", node.span, message));
            }
            return None;
        }
        if matches!(node.value, YamlValue::Map(_)) {
            return self
                .long_limit(node)
                .map(|limit| Spanned::new(LimitDefinition::Limit(limit), node.span));
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
            grammar::limit(text.value).map(LimitDefinition::Limit)
        };
        match read {
            Ok(limit) => Some(Spanned::new(limit, node.span)),
            Err(error) => {
                self.grammar_error("bad-limit", &text, error);
                None
            }
        }
    }

    /// Reads a limit that is written out and does not refer to a plan.
    pub(super) fn plain_limit(&mut self, node: &YamlNode<'_>) -> Option<Spanned<Limit>> {
        let definition = self.limit_definition(node)?;
        let what = match definition.value {
            LimitDefinition::Limit(limit) => return Some(Spanned::new(limit, node.span)),
            LimitDefinition::Plan { .. } => "a plan's limit",
            LimitDefinition::Distinct { .. } => "a count of distinct values",
        };
        let message = format!("{what} cannot stand here, only in a rule");
        let diagnostic = Diagnostic::error("bad-limit", node.span, message);
        self.diagnostics.push(diagnostic.help("write the limit out, as in `60/h`"));
        None
    }
}

/// `plan.api [options]`.
fn plan(text: &str) -> Result<LimitDefinition, GrammarError> {
    let start = text.len() - text.trim_start().len();
    let word_end = text[start..].find(char::is_whitespace).map_or(text.len(), |end| start + end);
    let name = &text[start + "plan.".len()..word_end];
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(allowed) {
        let message = "a plan's limit has a name, as in plan.api".to_owned();
        return Err(GrammarError { range: start..word_end, message, fix: None });
    }
    let options = &text[word_end..];
    grammar::options(options).map_err(|error| shift(error, word_end))?;
    Ok(LimitDefinition::Plan { limit: name.into(), options: options.trim().into() })
}

/// `3 distinct user/h`.
fn distinct(text: &str) -> Result<LimitDefinition, GrammarError> {
    let fault =
        |message: &str| GrammarError { range: 0..text.len(), message: message.into(), fix: None };
    let example = "write a number, an attribute and a window, as in `3 distinct user/h`";
    let start = text.len() - text.trim_start().len();
    let (count_text, rest) =
        text[start..].split_once(char::is_whitespace).ok_or_else(|| fault(example))?;
    let count = grammar::number(count_text).map_err(|error| shift(error, start))?;
    if count == 0 {
        let range = start..start + count_text.len();
        let message = "0 distinct values would never let anything pass: use at least 1".into();
        return Err(GrammarError { range, message, fix: None });
    }
    let rest = rest.trim_start();
    let values = rest.get("distinct".len()..).unwrap_or("");
    let (attribute, window) = values.rsplit_once('/').ok_or_else(|| fault(example))?;
    if attribute.trim().is_empty() {
        return Err(fault(example));
    }
    let at = text.len() - window.len();
    let period = grammar::period(window).map_err(|error| shift(error, at))?;
    let window = period.span().into();
    Ok(LimitDefinition::Distinct { count, attribute: attribute.trim().into(), window })
}

/// Moves an error to a text that begins `by` bytes later.
fn shift(error: GrammarError, by: usize) -> GrammarError {
    let GrammarError { range, message, fix } = error;
    let range = range.start + by..range.end + by;
    let fix = fix.map(|(range, text)| (range.start + by..range.end + by, text));
    GrammarError { range, message, fix }
}
