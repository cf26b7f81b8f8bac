//! Overrides: another limit or plan for some, for a while.

use super::scalar::shown;
use super::{MAX_ENTRIES, Reader};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::moment::{HELP, moment};
use crate::rules::source::At;
use crate::rules::written::Override;
use crate::rules::yaml::Node;

const FIELDS: [&str; 6] = ["match", "rule", "limit", "plan", "until", "reason"];

impl Reader<'_> {
    pub(super) fn overrides(&mut self, node: &Node<'_>) -> Vec<Override> {
        let nodes = self.list(node, "a list of overrides", MAX_ENTRIES);
        self.each(nodes, Self::one_override)
    }

    fn one_override(&mut self, node: &Node<'_>) -> Option<Override> {
        let fields = self.fields(node, "an override", &FIELDS)?;
        let mut matches = Vec::new();
        if let Some(node) = self.require(&fields, "match", "an override", "match: { org: acme }") {
            let entries =
                self.entries(node, "a mapping of attributes to patterns, as in { org: acme }");
            if entries.is_empty() && matches!(&node.value, crate::rules::yaml::Value::Map(_)) {
                let found =
                    Diagnostic::error("empty", node.place, "an override of nobody in particular");
                self.found
                    .push(found.help("name at least one attribute, as in `match: { org: acme }`"));
            }
            for (name, node) in entries {
                if let Some(pattern) = self.owned(node, "a name or a pattern") {
                    matches.push((name.map(str::to_owned), pattern));
                }
            }
        }
        let rule = fields.get("rule").and_then(|node| self.name(node, "a rule"));
        let limits = fields.get("limit").map(|node| self.plan_limits(node)).unwrap_or_default();
        let plan = fields.get("plan").and_then(|node| self.name(node, "a plan"));
        match (fields.key("limit"), fields.key("plan")) {
            (None, None) => {
                let message = "an override needs `limit` or `plan`";
                let found = Diagnostic::error("missing-field", fields.place, message);
                self.found.push(found.help("add `limit: 50k/h`, or `plan: pro`"));
            }
            (Some(limit), Some(plan)) => {
                let message = "an override has either a limit or a plan";
                let found = Diagnostic::error("conflicting-fields", plan, message);
                self.found.push(found.related(limit, "the limit is here").help("keep one of them"));
            }
            _ => {}
        }
        let until = fields.get("until").and_then(|node| self.until(node));
        // For people, who read the file.
        fields.get("reason").and_then(|node| self.owned(node, "a reason"));
        Some(Override { place: fields.place, matches, rule, limits, plan, until })
    }

    /// A date, which means its first instant, or a date and a time.
    pub(super) fn until(&mut self, node: &Node<'_>) -> Option<At<u64>> {
        let text = self.text(node, "a date such as 2027-01-01")?;
        let written = text.trim();
        let nanos = moment(written, &self.zone);
        if nanos.is_none() {
            let message = format!("{} is no date", shown(written));
            let found = Diagnostic::error("bad-date", node.place, message);
            self.found.push(found.help(HELP));
        }
        nanos.map(|nanos| At::new(nanos, node.place))
    }
}
