//! Overrides: another limit or plan for some, for a while.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

use super::scalar::shown;
use super::{MAX_ENTRIES, Reader};
use crate::rules::diagnostic::Diagnostic;
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
        let reason = fields.get("reason").and_then(|node| self.owned(node, "a reason"));
        let reason = reason.map(|reason| reason.value);
        Some(Override { place: fields.place, matches, rule, limits, plan, until, reason })
    }

    /// A date, which means its first instant, or a date and a time.
    pub(super) fn until(&mut self, node: &Node<'_>) -> Option<At<u64>> {
        let text = self.text(node, "a date such as 2027-01-01")?;
        let written = text.trim();
        let here =
            |civil: DateTime| civil.to_zoned(self.zone.clone()).ok().map(|zoned| zoned.timestamp());
        let looks_like_date = written.len() == "2027-01-01".len();
        let instant = match written.parse::<Timestamp>() {
            Ok(instant) => Some(instant),
            // A time without an offset is one of the file's time zone.
            Err(_) if looks_like_date => {
                let date = written.parse::<Date>().ok();
                date.and_then(|date| here(date.at(0, 0, 0, 0)))
            }
            Err(_) => written.parse::<DateTime>().ok().and_then(here),
        };
        let nanos = instant.and_then(|instant| u64::try_from(instant.as_nanosecond()).ok());
        if nanos.is_none() {
            let message = format!("{} is no date", shown(written));
            let found = Diagnostic::error("bad-date", node.place, message);
            self.found.push(
                found.help(
                    "write a date such as 2027-01-01, or a time such as 2027-01-01T18:00:00Z",
                ),
            );
        }
        nanos.map(|nanos| At::new(nanos, node.place))
    }
}
