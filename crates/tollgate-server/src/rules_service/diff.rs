//! Differences between two texts of a rules file: by line, and by rule.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use similar::TextDiff;
use tollgate_rules::Source;
use tollgate_rules::yaml::YamlFile;

/// The maximum number of names in a summary.
const SUMMARY_NAMES: usize = 20;
/// The time after which a diff is finished with less precision.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// The rules and sections that differ between two texts of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct RuleChanges {
    /// The names of added rules.
    pub(super) added: Vec<String>,
    /// The names of removed rules.
    pub(super) removed: Vec<String>,
    /// The names of rules whose definitions differ.
    pub(super) changed: Vec<String>,
    /// The names of differing sections besides `rules`, such as `plans` and `defaults`.
    pub(super) sections: Vec<String>,
}

impl RuleChanges {
    /// Returns a one-line summary for the audit log: `+search -api ~edge plans`.
    pub(super) fn summary(&self) -> String {
        let marked = [("+", &self.added), ("-", &self.removed), ("~", &self.changed)];
        let rules = marked
            .iter()
            .flat_map(|(mark, names)| names.iter().map(move |name| format!("{mark}{name}")));
        let mut names: Vec<String> = rules.chain(self.sections.iter().cloned()).collect();
        let left_out = names.len().saturating_sub(SUMMARY_NAMES);
        if left_out > 0 {
            names.truncate(SUMMARY_NAMES);
            names.push(format!("and {left_out} more"));
        }
        names.join(" ")
    }
}

/// Returns a unified diff, which is empty if the texts are equal.
pub(super) fn unified(name: &str, old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let (before, after) = (format!("a/{name}"), format!("b/{name}"));
    diff.unified_diff().context_radius(3).header(&before, &after).to_string()
}

/// Compares two texts by rule, independent of their layout.
pub(super) fn changes(old: &str, new: &str) -> RuleChanges {
    let (old, new) = (sections(old), sections(new));
    let mut changes = RuleChanges::default();
    let (old_rules, new_rules) = (rules(&old), rules(&new));
    for (name, rule) in &new_rules {
        match old_rules.iter().find(|(other, _)| other == name) {
            None => changes.added.push(name.clone()),
            Some((_, before)) if before != rule => changes.changed.push(name.clone()),
            Some(_) => {}
        }
    }
    for (name, _) in &old_rules {
        if !new_rules.iter().any(|(other, _)| other == name) {
            changes.removed.push(name.clone());
        }
    }
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let differs = |name: &&&String| name.as_str() != "rules" && old.get(**name) != new.get(**name);
    changes.sections = names.iter().filter(differs).map(|name| (*name).clone()).collect();
    changes
}

/// Returns the sections of a file; none for a text that is absent.
///
/// Both texts were validated before, so that only an absent text is not a mapping.
fn sections(text: &str) -> Map<String, Value> {
    let source = Source::new("rules", text);
    let file = YamlFile::read(&source).ok();
    let root = file.as_ref().and_then(|file| file.documents().first());
    match root.map(serde_json::to_value) {
        Some(Ok(Value::Object(sections))) => sections,
        _ => Map::new(),
    }
}

/// Returns the rules of a file with their names; a rule without a name is left out.
fn rules(sections: &Map<String, Value>) -> Vec<(String, &Value)> {
    let rules = sections.get("rules").and_then(Value::as_array);
    let named = |rule| {
        let name: &Value = Value::get(rule, "name")?;
        let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
        Some((name, rule))
    };
    rules.map_or_else(Vec::new, |rules| rules.iter().filter_map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "\
domain: shop
plans: { free: { api: 60/h } }
attributes: [org]
rules:
  - { name: api, per: org, limit: plan.api }
  - { name: edge, per: ip, limit: 10/s }
  - { name: login, per: ip, limit: 5/min }
";

    #[test]
    fn rules_are_compared_by_name_and_not_by_layout() {
        let new = "\
domain: shop
plans: { free: { api: 70/h } }
attributes: [org]
rules:
  - { name: search, limit: 1/s }
  - name: login
    limit: 5/min
    per: ip
  - { name: edge, per: ip, limit: 20/s }
";
        let found = changes(OLD, new);
        assert_eq!(found.added, ["search"]);
        assert_eq!(found.removed, ["api"]);
        assert_eq!(found.changed, ["edge"]);
        assert_eq!(found.sections, ["plans"]);
        assert_eq!(found.summary(), "+search -api ~edge plans");
        assert_eq!(changes(OLD, OLD), RuleChanges::default());
    }

    #[test]
    fn a_new_file_adds_all_its_rules() {
        assert_eq!(changes("", OLD).added, ["api", "edge", "login"]);
        assert_eq!(changes(OLD, "").removed, ["api", "edge", "login"]);
    }

    #[test]
    fn a_diff_shows_the_lines() {
        let diff = unified("shop", OLD, &OLD.replace("10/s", "20/s"));
        assert!(diff.starts_with("--- a/shop\n+++ b/shop\n@@"), "{diff}");
        assert!(diff.contains("-  - { name: edge, per: ip, limit: 10/s }\n"), "{diff}");
        assert!(diff.contains("+  - { name: edge, per: ip, limit: 20/s }\n"), "{diff}");
        assert_eq!(unified("shop", OLD, OLD), "");
    }
}
