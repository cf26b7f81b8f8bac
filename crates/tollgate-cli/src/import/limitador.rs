//! Limitador: a list of limits, each with a namespace, CEL conditions and variables.
//!
//! A namespace becomes a domain. All descriptors of a request are one request, in which conditions and
//! variables read `descriptors[0]["user"]`. A limit applies if all its conditions hold and it has a
//! value for each variable. Windows begin with a counter's first hit, a request is charged to all
//! limits or none, and one that is refused is not counted. Of limits that differ only in their
//! `max_value`, name and id, Limitador keeps the first.

mod expression;

use std::collections::HashSet;

use anyhow::bail;
use tollgate_rules::Source;
use tollgate_rules::yaml::{YamlFile, YamlNode};

use self::expression::{LimitExpression, LimitIdentity};
use super::condition::{Condition, is_name};
use super::draft::{DraftRule, RulesDraft};
use super::finding::{Effect, Origin};
use super::rate;

const FIELDS: [&str; 7] =
    ["id", "name", "namespace", "max_value", "seconds", "conditions", "variables"];

/// Reads files; each namespace becomes a domain.
pub(super) fn import(sources: &[Source]) -> anyhow::Result<Vec<RulesDraft>> {
    let mut drafts: Vec<RulesDraft> = Vec::new();
    let mut seen = HashSet::new();
    for file in &super::yaml_files(sources)? {
        for root in file.documents() {
            // A ConfigMap or a custom resource has the list under `limits`.
            let limits = root.get("limits").unwrap_or(root);
            if !limits.is_list() {
                bail!("{}: this is no list of limits", Origin::at(file, limits));
            }
            for node in limits.items() {
                let at = Origin::at(file, node);
                let draft = draft_of(&mut drafts, node, file);
                draft.find_unknown(node, &FIELDS, file, "a limit");
                if !seen.insert(identity(node)) {
                    let message = "left out: an earlier limit has the same namespace, seconds, \
                                   conditions and variables, and Limitador keeps that one";
                    draft.find(Effect::Equal, &at, message);
                    continue;
                }
                if let Err(reason) = limit(node, &at, draft) {
                    draft.find(Effect::MorePermissive, &at, format!("left out: {reason}"));
                }
            }
        }
    }
    Ok(drafts)
}

/// Returns the draft of a limit's namespace, a new one if there is none.
fn draft_of<'d>(
    drafts: &'d mut Vec<RulesDraft>,
    node: &YamlNode<'_>,
    file: &YamlFile<'_>,
) -> &'d mut RulesDraft {
    let namespace = node.text_of("namespace").unwrap_or("default");
    let known = drafts.iter().position(|draft| draft.domain.as_deref() == Some(namespace));
    let index = known.unwrap_or_else(|| {
        let setting = |name, value: &str, reason: &str| (name, value.to_owned(), reason.to_owned());
        drafts.push(RulesDraft {
            header: vec![format!("Imported from {} (Limitador).", file.name())],
            domain: Some(namespace.to_owned()),
            defaults: vec![
                setting("missing_key", "skip", "a limit whose variable is missing does not apply"),
                setting("descriptors", "together", "a limit sees all descriptors of a request"),
            ],
            ..RulesDraft::default()
        });
        drafts.len() - 1
    });
    &mut drafts[index]
}

/// What Limitador recognises a limit by.
type IdentityFields = (Vec<String>, Vec<String>, Vec<String>);

fn identity(node: &YamlNode<'_>) -> IdentityFields {
    let texts = |key: &str| {
        let mut texts: Vec<String> =
            node.texts_of(key).iter().map(|text| text.to_string()).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    };
    let plain =
        ["namespace", "seconds"].map(|key| node.text_of(key).unwrap_or_default().to_owned());
    (plain.to_vec(), texts("conditions"), texts("variables"))
}

/// Adds the rule of a limit.
fn limit(node: &YamlNode<'_>, at: &Origin, draft: &mut RulesDraft) -> Result<(), String> {
    let number = |key: &str| node.get(key).and_then(YamlNode::number);
    let (Some(most), Some(seconds)) = (number("max_value"), number("seconds")) else {
        return Err("a limit needs whole numbers for `max_value` and `seconds`".to_owned());
    };
    let known = LimitIdentity { name: node.text_of("name"), id: node.text_of("id") };
    let namespace = node.text_of("namespace").unwrap_or("default");
    let name = known.name.or(known.id).unwrap_or(namespace);
    let mut rule = DraftRule::new(name, at, &format!("max_value {most} in {seconds} seconds"));
    let mut bare: Vec<String> = Vec::new();
    for text in node.texts_of("conditions") {
        let read = LimitExpression::read(text, &known)
            .map_err(|reason| format!("the condition {text:?}: {reason}"))?;
        match read.constant {
            Some(true) => {}
            Some(false) => {
                let message =
                    format!("left out: the condition {text:?} never holds for this limit");
                draft.find(Effect::Equal, at, message);
                return Ok(());
            }
            None => rule.when = rule.when.and(condition(&read.text)),
        }
        if read.constant.is_none() && (text.contains("||") || text.contains("!(")) {
            let message = format!(
                "the condition {text:?} can hold although an entry in it is missing, where Limitador \
                 stops at the missing one"
            );
            draft.find(Effect::Stricter, at, message);
        }
        bare.extend(read.bare_names);
    }
    for text in node.texts_of("variables") {
        let read = LimitExpression::read(text, &known)
            .map_err(|reason| format!("the variable {text:?}: {reason}"))?;
        if read.names_limit {
            let message = format!("left out: no request has the variable {text:?}");
            draft.find(Effect::Equal, at, message);
            return Ok(());
        }
        rule.per.push(read.text);
        bare.extend(read.bare_names);
    }
    match most {
        0 => {
            rule.comments.push("Nothing may pass.".to_owned());
            rule.require_keys();
            rule.then = Some("deny".to_owned());
        }
        _ => rule.limits.push(format!("{most}/{} fixed first_hit", rate::period(seconds))),
    }
    for name in bare {
        let message = format!(
            "`{name}` is the entry of the last descriptor that has it, as in Limitador 1; since \
             version 2 its servers know only `descriptors[0].{name}`, and the limit never applies"
        );
        draft.find(Effect::Stricter, at, message);
    }
    draft.add(rule, at);
    Ok(())
}

/// Reads a condition: a comparison of a plain name with a text, or else an expression.
fn condition(text: &str) -> Condition {
    for (operator, equal) in [("==", true), ("!=", false)] {
        let Some((name, value)) = text.split_once(operator) else { continue };
        if let (true, Some(value)) = (is_name(name.trim()), expression::literal(value.trim())) {
            let is = Condition::is(name.trim(), &value);
            return if equal { is } else { is.not() };
        }
    }
    Condition::Expression(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_with_a_text_is_a_field() {
        assert_eq!(condition("plan == 'free'").written().unwrap(), "{ plan: free }");
        assert_eq!(condition("plan != 'free'").written().unwrap(), r#"'plan != "free"'"#);
        let indexed = r#"descriptors[0]["a"] == '1'"#;
        assert_eq!(condition(indexed).expression(), indexed);
    }
}
