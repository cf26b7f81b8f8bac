//! What a change of a rules file changes: line by line for people, rule by rule for both.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use similar::TextDiff;

/// Names in a line of the audit.
const SUMMARY_WORDS: usize = 20;
/// A diff that takes longer becomes coarser instead.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// What differs between two texts of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Changes {
    /// Names of rules.
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    pub(super) changed: Vec<String>,
    /// Other parts of the file that differ: `plans`, `defaults`.
    pub(super) sections: Vec<String>,
}

impl Changes {
    /// In one line, for the audit: `+search -api ~edge plans`.
    pub(super) fn summary(&self) -> String {
        let marked = [("+", &self.added), ("-", &self.removed), ("~", &self.changed)];
        let names = marked
            .iter()
            .flat_map(|(mark, names)| names.iter().map(move |name| format!("{mark}{name}")));
        let mut words: Vec<String> = names.chain(self.sections.iter().cloned()).collect();
        let left_out = words.len().saturating_sub(SUMMARY_WORDS);
        if left_out > 0 {
            words.truncate(SUMMARY_WORDS);
            words.push(format!("and {left_out} more"));
        }
        words.join(" ")
    }
}

/// A unified diff, empty if nothing differs.
pub(super) fn unified(name: &str, old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let (before, after) = (format!("a/{name}"), format!("b/{name}"));
    diff.unified_diff().context_radius(3).header(&before, &after).to_string()
}

/// Which rules differ, whatever the layout of the text.
pub(super) fn changes(old: &str, new: &str) -> Changes {
    let (old, new) = (sections(old), sections(new));
    let mut changes = Changes::default();
    let (old_rules, new_rules) = (rules(&old), rules(&new));
    for (name, rule) in &new_rules {
        match old_rules.iter().find(|(known, _)| known == name) {
            None => changes.added.push(name.clone()),
            Some((_, before)) if before != rule => changes.changed.push(name.clone()),
            Some(_) => {}
        }
    }
    for (name, _) in &old_rules {
        if !new_rules.iter().any(|(known, _)| known == name) {
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

/// The parts of a file. A text that is no mapping has none: it is only ever one that is absent,
/// because both texts were checked.
fn sections(text: &str) -> Map<String, Value> {
    match serde_saphyr::from_str(text) {
        Ok(Value::Object(sections)) => sections,
        _ => Map::new(),
    }
}

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
        assert_eq!(changes(OLD, OLD), Changes::default());
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
