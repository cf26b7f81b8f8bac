//! Reads overrides: another limit or plan for some requests, for a while.

use super::scalar::excerpt;
use super::{DocumentReader, MAX_ENTRIES};
use crate::read::definition::OverrideDefinition;
use crate::read::diagnostic::Diagnostic;
use crate::read::source::Spanned;
use crate::read::timestamp::{TIMESTAMP_HELP, parse_timestamp};
use crate::read::yaml::YamlNode;

const FIELDS: [&str; 6] = ["match", "rule", "limit", "plan", "until", "reason"];

impl DocumentReader<'_> {
    pub(super) fn overrides(&mut self, node: &YamlNode<'_>) -> Vec<OverrideDefinition> {
        let nodes = self.list(node, "a list of overrides", MAX_ENTRIES);
        self.each(nodes, Self::one_override)
    }

    fn one_override(&mut self, node: &YamlNode<'_>) -> Option<OverrideDefinition> {
        let fields = self.fields(node, "an override", &FIELDS)?;
        let mut matches = Vec::new();
        if let Some(node) = self.require(&fields, "match", "an override", "match: { org: acme }") {
            let entries =
                self.entries(node, "a mapping of attributes to patterns, as in { org: acme }");
            if entries.is_empty() && matches!(&node.value, crate::read::yaml::YamlValue::Map(_)) {
                let diagnostic =
                    Diagnostic::error("empty", node.span, "this override matches no attribute");
                self.diagnostics.push(
                    diagnostic.help("name at least one attribute, as in `match: { org: acme }`"),
                );
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
                let diagnostic = Diagnostic::error("missing-field", fields.span, message);
                self.diagnostics.push(diagnostic.help("add `limit: 50k/h`, or `plan: pro`"));
            }
            (Some(limit), Some(plan)) => {
                let message = "an override has either a limit or a plan";
                let diagnostic = Diagnostic::error("conflicting-fields", plan, message);
                self.diagnostics
                    .push(diagnostic.related(limit, "the limit is here").help("keep one of them"));
            }
            _ => {}
        }
        let until = fields.get("until").and_then(|node| self.until(node));
        // The reason is for readers of the file, and is not used.
        fields.get("reason").and_then(|node| self.owned(node, "a reason"));
        Some(OverrideDefinition { span: fields.span, matches, rule, limits, plan, until })
    }

    /// Reads a date, which is its first instant, or a date and a time.
    pub(super) fn until(&mut self, node: &YamlNode<'_>) -> Option<Spanned<u64>> {
        let text = self.text(node, "a date such as 2027-01-01")?;
        let date = text.trim();
        let nanos = parse_timestamp(date, &self.zone);
        if nanos.is_none() {
            let message = format!("{} is no date", excerpt(date));
            let diagnostic = Diagnostic::error("bad-date", node.span, message);
            self.diagnostics.push(diagnostic.help(TIMESTAMP_HELP));
        }
        nanos.map(|nanos| Spanned::new(nanos, node.span))
    }
}
