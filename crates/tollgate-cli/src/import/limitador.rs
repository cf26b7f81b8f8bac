//! Limitador: a list of limits, each with a namespace, CEL conditions and variables.
//!
//! A namespace becomes a domain. Its windows begin with a counter's first hit, and denied
//! requests are not counted.

use anyhow::bail;
use tollgate_rules::Source;
use tollgate_rules::yaml::{YamlFile, YamlNode};

use super::condition::{Condition, is_name};
use super::draft::{DraftRule, RulesDraft};
use super::note::{NoteSeverity, Origin};
use super::rate;

const FIELDS: [&str; 7] =
    ["id", "name", "namespace", "max_value", "seconds", "conditions", "variables"];

/// Reads files; each namespace becomes a domain.
pub(super) fn import(sources: &[Source]) -> anyhow::Result<Vec<RulesDraft>> {
    let mut drafts: Vec<RulesDraft> = Vec::new();
    for file in &super::yaml_files(sources)? {
        for root in file.documents() {
            // A ConfigMap or a custom resource has the list under `limits`.
            let limits = root.get("limits").unwrap_or(root);
            if !limits.is_list() {
                bail!("{}: this is no list of limits", Origin::at(file, limits));
            }
            for node in limits.items() {
                limit(node, file, &mut drafts);
            }
        }
    }
    Ok(drafts)
}

fn limit(node: &YamlNode<'_>, file: &YamlFile<'_>, drafts: &mut Vec<RulesDraft>) {
    let at = Origin::at(file, node);
    let namespace = node.text_of("namespace").unwrap_or("default");
    let known = drafts.iter().position(|draft| draft.domain.as_deref() == Some(namespace));
    let index = known.unwrap_or_else(|| {
        drafts.push(RulesDraft {
            header: vec![format!("Imported from {} (Limitador).", file.name())],
            domain: Some(namespace.to_owned()),
            defaults: vec![(
                "missing_key",
                "skip".to_owned(),
                "a limit whose variable is missing does not apply",
            )],
            ..RulesDraft::default()
        });
        drafts.len() - 1
    });
    let draft = &mut drafts[index];
    draft.note_unknown(node, &FIELDS, file, "a limit");
    let number = |key: &str| node.get(key).and_then(YamlNode::number);
    let (Some(most), Some(seconds)) = (number("max_value"), number("seconds")) else {
        let message = "a limit needs whole numbers for `max_value` and `seconds`";
        return draft.note(NoteSeverity::LeftOut, &at, message);
    };
    let name = node.text_of("name").or_else(|| node.text_of("id"));
    let what = format!("max_value {most} in {seconds} seconds");
    let mut rule = DraftRule::new(name.unwrap_or(namespace), &at, &what);
    for text in node.texts_of("conditions") {
        match condition(text) {
            Ok(condition) => rule.when = rule.when.and(condition),
            Err(reason) => {
                let message = format!("the limit with condition {text:?}: {reason}");
                return draft.note(NoteSeverity::LeftOut, &at, message);
            }
        }
    }
    for text in node.texts_of("variables") {
        match expression(text) {
            Ok(expression) => rule.per.push(expression),
            Err(reason) => {
                let message = format!("the limit with variable {text:?}: {reason}");
                return draft.note(NoteSeverity::LeftOut, &at, message);
            }
        }
    }
    match most {
        0 => {
            rule.comments.push("Nothing may pass.".to_owned());
            rule.require_keys();
            rule.then = Some("deny".to_owned());
        }
        _ => rule.limits.push(format!("{most}/{} fixed first_hit", rate::period(seconds))),
    }
    let later = |text: &&str| later_descriptor(text);
    let texts = [node.texts_of("conditions"), node.texts_of("variables")].concat();
    if let Some(text) = texts.iter().find(|text| later(text)) {
        let message = format!(
            "{text:?} reads a later descriptor: in rules all descriptors of a request are one set of \
             attributes"
        );
        draft.note(NoteSeverity::Differs, &at, message);
    }
    draft.add(rule, &at);
}

/// Returns whether an expression names a descriptor beyond the first.
fn later_descriptor(text: &str) -> bool {
    let indexes = text.split("descriptors[").skip(1);
    indexes.filter_map(|rest| rest.split(']').next()).any(|index| index.trim() != "0")
}

/// Reads a condition: a comparison with a text, or else an expression.
fn condition(text: &str) -> Result<Condition, String> {
    let text = expression(text)?;
    for (operator, equal) in [("==", true), ("!=", false)] {
        let Some((name, value)) = text.split_once(operator) else { continue };
        let (name, value) = (name.trim(), value.trim());
        match (is_name(name), literal(value)) {
            (true, Some(value)) if equal => return Ok(Condition::is(name, &value)),
            (true, Some(value)) => return Ok(Condition::is(name, &value).not()),
            (true, None) if is_name(value) => {
                return Err(format!(
                    "the old syntax `{name} {operator} {value}` is ambiguous: write the value in \
                     quotes"
                ));
            }
            _ => {}
        }
    }
    Ok(Condition::Expression(text))
}

/// Returns the text of a string literal without escapes.
fn literal(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\'])).then(|| inner.to_owned())
}

/// Rewrites an expression so that `descriptors[0].x` and `descriptors[0]['x']` are the attribute `x`.
fn expression(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text.trim();
    while let Some(c) = rest.chars().next() {
        if matches!(c, '\'' | '"') {
            let end = string_end(rest).ok_or("a text is not closed")?;
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let starts_name = c.is_alphabetic() || c == '_';
        let name_len =
            rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        match starts_name && &rest[..name_len] == "descriptors" {
            true => {
                let (name, after) = entry(&rest[name_len..])
                    .ok_or("only entries of a descriptor can be read, as in descriptors[0].x")?;
                if !is_name(name) {
                    return Err(format!("`{name}` cannot be the name of an attribute in a rule"));
                }
                out.push_str(name);
                rest = after;
            }
            false => {
                let len = if starts_name { name_len } else { c.len_utf8() };
                out.push_str(&rest[..len]);
                rest = &rest[len..];
            }
        }
    }
    Ok(out)
}

/// Returns the name in `[0].name` or `[0]['name']`, and the rest of the text.
fn entry(text: &str) -> Option<(&str, &str)> {
    let (index, rest) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    index.trim().parse::<u32>().ok()?;
    if let Some(rest) = rest.strip_prefix('.') {
        let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        return (len > 0).then(|| rest.split_at(len));
    }
    let rest = rest.strip_prefix('[')?.trim_start();
    let end = string_end(rest)?;
    let after = rest[end..].trim_start().strip_prefix(']')?;
    Some((&rest[1..end - 1], after))
}

/// Returns the length of the string literal at the start of the text, quotes included.
fn string_end(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_become_attributes() {
        let text = "descriptors[0]['req.path'] != '/a' && descriptors[0].user.size() > 3";
        assert_eq!(expression(text).unwrap(), "req.path != '/a' && user.size() > 3");
        assert_eq!(expression("user_id").unwrap(), "user_id");
        assert_eq!(expression("'descriptors[0].x' == y").unwrap(), "'descriptors[0].x' == y");
        assert!(expression("descriptors[0]['x-y'] == '1'").is_err());
        assert!(expression("descriptors.size() > 1").is_err());
        assert!(expression("'open").is_err());
    }

    #[test]
    fn a_comparison_with_a_text_is_a_field() {
        let condition = condition("descriptors[0]['req.method'] == 'GET'").unwrap();
        assert_eq!(condition.written().unwrap(), "{ req.method: GET }");
        assert!(super::condition("plan == gold").unwrap_err().contains("quotes"));
    }

    #[test]
    fn later_descriptors_are_recognized() {
        assert!(later_descriptor("descriptors[1].x == '1'"));
        assert!(!later_descriptor("descriptors[0].x == '1'"));
    }
}
