//! Reads a rule: its requests, key, limits, and action over the limit.

use std::collections::HashMap;
use std::time::Duration;

use super::declarations::MAX_LIMITS;
use super::mapping::MappingFields;
use super::scalar::excerpt;
use super::top_level::{CONSISTENCY, MISSING_KEY, ON_ERROR};
use super::{DocumentReader, MAX_ENTRIES};
use crate::compile::policy::{Mode, Then};
use crate::compile::route::Route;
use crate::compile::schedule::Schedule;
use crate::read::definition::{LimitDefinition, RuleDefinition, WhenDefinition};
use crate::read::diagnostic::Diagnostic;
use crate::read::source::{SourceSpan, Spanned};
use crate::read::yaml::{YamlNode, YamlValue};

const FIELDS: [&str; 18] = [
    "name",
    "route",
    "when",
    "per",
    "limit",
    "cost",
    "count",
    "then",
    "mode",
    "bucket",
    "on_error",
    "missing_key",
    "priority",
    "consistency",
    "during",
    "fair",
    "dedupe",
    "description",
];

/// The maximum number of parts of a key.
const MAX_PARTS: usize = 16;
/// The maximum number of routes of a rule, and of values of a condition.
const MAX_ROUTES: usize = 1_000;

impl DocumentReader<'_> {
    pub(super) fn rules(&mut self, node: &YamlNode<'_>) -> Vec<RuleDefinition> {
        let nodes = self.list(node, "a list of rules", MAX_ENTRIES);
        let mut names: HashMap<String, SourceSpan> = HashMap::with_capacity(nodes.len());
        let mut rules = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            if self.diagnostics.is_full() {
                break;
            }
            let Some(rule) = self.rule(node, index) else { continue };
            if let Some(first) = names.get(&rule.name.value) {
                let message = format!("a second rule is called {}", excerpt(&rule.name));
                let diagnostic = Diagnostic::error("duplicate-name", rule.name.span, message);
                let diagnostic =
                    diagnostic.label("again here").related(*first, "the first one is here");
                self.diagnostics.push(diagnostic.help(
                    "give it a name of its own; to share a counter, give both the same `bucket`",
                ));
            } else {
                names.insert(rule.name.value.clone(), rule.name.span);
            }
            rules.push(rule);
        }
        rules
    }

    fn rule(&mut self, node: &YamlNode<'_>, index: usize) -> Option<RuleDefinition> {
        let fields = self.fields(node, "a rule", &FIELDS)?;
        let name = self.require(&fields, "name", "a rule", "name: api");
        let name = name.and_then(|node| self.name(node, "a rule"));
        // The other errors of a rule without a name are reported too.
        let name = name.unwrap_or_else(|| Spanned::new(format!("#{}", index + 1), fields.span));
        let per = fields.get("per").map(|node| self.per(node)).unwrap_or_default();
        let limits = fields.get("limit").map(|node| self.limits(node)).unwrap_or_default();
        let then = fields.get("then").and_then(|node| self.then(node));
        if fields.get("then").is_none() || then.is_some() {
            self.check_combination(&fields, then.as_ref());
        }
        // The description is for readers of the file, and is not used.
        fields.get("description").and_then(|node| self.text(node, "a description"));
        let mode = fields.get("mode").and_then(|node| self.mode(node)).unwrap_or_default();
        Some(RuleDefinition {
            name,
            routes: fields.get("route").map(|node| self.routes(node)).unwrap_or_default(),
            when: fields.get("when").and_then(|node| self.when(node)),
            per,
            limits,
            cost: fields.get("cost").and_then(|node| self.cost(node)),
            count: fields.get("count").and_then(|node| self.owned(node, "an expression")),
            then,
            mode,
            bucket: fields.get("bucket").and_then(|node| self.name(node, "a bucket")),
            on_error: fields
                .get("on_error")
                .and_then(|node| self.choice(node, "on_error", &ON_ERROR))
                .map(|word| word.value),
            missing_key: fields
                .get("missing_key")
                .and_then(|node| self.choice(node, "missing_key", &MISSING_KEY))
                .map(|word| word.value),
            priority: fields.get("priority").and_then(|node| self.priority(node)),
            consistency: fields
                .get("consistency")
                .and_then(|node| self.choice(node, "consistency", &CONSISTENCY))
                .map(|word| word.value),
            during: fields.get("during").and_then(|node| self.during(node)),
            fair: fields.get("fair").and_then(|node| self.fair(node)),
            dedupe: fields.get("dedupe").and_then(|node| self.dedupe(node)),
        })
    }

    /// Reports a rule that does nothing.
    fn check_combination(&mut self, fields: &MappingFields<'_, '_>, then: Option<&Spanned<Then>>) {
        let limit = fields.key("limit");
        let diagnostic = match (then.map(|then| &then.value), limit) {
            (None, None) => Diagnostic::error("no-limit", fields.span, "this rule limits nothing")
                .help("add `limit: 10/s`, or `then: allow` or `then: deny`"),
            (Some(Then::Allow), Some(limit)) => {
                let message = "`then: allow` lets everything pass, so this limit is never checked";
                Diagnostic::error("conflicting-fields", limit, message)
                    .help("leave out one of them; to only watch a limit, write `mode: shadow`")
            }
            (Some(Then::Allow | Then::Deny { .. } | Then::Ban(_)), None) | (_, Some(_)) => return,
            (Some(then), None) => {
                let message = format!("`then: {}` needs a limit", then.name());
                Diagnostic::error("no-limit", fields.key("then").unwrap_or(fields.span), message)
                    .help("add `limit: 10/s`")
            }
        };
        self.diagnostics.push(diagnostic);
    }

    fn routes(&mut self, node: &YamlNode<'_>) -> Vec<Spanned<Route>> {
        let what = "a route such as POST /login";
        let mut routes = Vec::new();
        for node in self.several(node, what, MAX_ROUTES) {
            let Some(text) = self.text(node, what) else { continue };
            match Route::parse(text.value) {
                Ok(route) => routes.push(Spanned::new(route, node.span)),
                Err(fault) => self.diagnostics.push(fault.into_diagnostic("bad-route", node.span)),
            }
        }
        routes
    }

    fn when(&mut self, node: &YamlNode<'_>) -> Option<Spanned<WhenDefinition>> {
        let what = "a condition such as plan == \"free\", or a mapping such as { plan: free }";
        if !matches!(node.value, YamlValue::Map(_)) {
            let text = self.owned(node, what)?;
            return Some(text.map(WhenDefinition::Expression));
        }
        let mut fields = Vec::new();
        for (name, node) in self.entries(node, what) {
            let nodes = self.several(node, "a text or a list of texts", MAX_ROUTES);
            let patterns: Vec<_> =
                nodes.iter().filter_map(|node| self.owned(node, "a name or a pattern")).collect();
            if !patterns.is_empty() {
                fields.push((name.map(str::to_owned), patterns));
            }
        }
        Some(Spanned::new(WhenDefinition::Fields(fields), node.span))
    }

    fn per(&mut self, node: &YamlNode<'_>) -> Vec<Spanned<String>> {
        let what = "an attribute such as ip, or a list of them";
        let nodes = self.several(node, what, MAX_PARTS);
        nodes.iter().filter_map(|node| self.owned(node, what)).collect()
    }

    fn limits(&mut self, node: &YamlNode<'_>) -> Vec<Spanned<LimitDefinition>> {
        let nodes = self.several(node, "a limit", MAX_LIMITS);
        nodes.iter().filter_map(|node| self.limit_definition(node)).collect()
    }

    /// Reads a mode: `enforce`, `shadow`, `off`, `enforce 10%`.
    fn mode(&mut self, node: &YamlNode<'_>) -> Option<Mode> {
        const MODES: [(&str, Mode); 3] =
            [("enforce", Mode::Enforce), ("shadow", Mode::Shadow), ("off", Mode::Off)];
        let text = self.text(node, "a mode")?;
        let Some(share) = text.trim().strip_prefix("enforce").filter(|rest| !rest.is_empty())
        else {
            let mode = self.choice(node, "mode", &MODES);
            if mode.is_none() {
                self.help("use `enforce`, `shadow`, `off`, or `enforce 10%` for some of the keys");
            }
            return mode.map(|mode| mode.value);
        };
        match text.parse() {
            Ok(mode) => Some(mode),
            Err(_) => {
                let message = format!("{} is no share of the keys", excerpt(share.trim()));
                let diagnostic = Diagnostic::error("bad-number", node.span, message);
                self.diagnostics.push(diagnostic.help("write `enforce 10%`, from 1% to 100%"));
                None
            }
        }
    }

    fn during(&mut self, node: &YamlNode<'_>) -> Option<Spanned<Schedule>> {
        let text = self.text(node, "hours such as mon-fri 09:00-17:00")?;
        match Schedule::parse(text.value) {
            Ok(schedule) => Some(Spanned::new(schedule, node.span)),
            Err(fault) => {
                self.diagnostics.push(fault.into_diagnostic("bad-schedule", node.span));
                None
            }
        }
    }

    /// Reads `dedupe: header["idempotency-key"]`, or `{ by: …, for: 10min }`.
    fn dedupe(&mut self, node: &YamlNode<'_>) -> Option<(Spanned<String>, Option<Duration>)> {
        let what = "an expression such as header[\"idempotency-key\"]";
        if !matches!(node.value, YamlValue::Map(_)) {
            return Some((self.owned(node, what)?, None));
        }
        let fields = self.fields(node, "`dedupe`", &["by", "for"])?;
        let by = self.require(&fields, "by", "`dedupe`", "by: header[\"idempotency-key\"]")?;
        let by = self.owned(by, what)?;
        let lasts = match fields.get("for") {
            Some(node) => Some(self.duration(node, "a length of time such as 10min")?),
            None => None,
        };
        Some((by, lasts))
    }

    /// Reads `fair: { by: org }`.
    fn fair(&mut self, node: &YamlNode<'_>) -> Option<Spanned<String>> {
        if let (Some(text), true) = (node.text(), node.span.is_verbatim()) {
            let message = "expected a mapping that says by what, found a text";
            let diagnostic = Diagnostic::error("wrong-kind", node.span, message);
            self.diagnostics.push(diagnostic.fix(format!("{{ by: {text} }}")));
            return None;
        }
        let fields = self.fields(node, "`fair`", &["by"])?;
        let by = self.require(&fields, "by", "`fair`", "by: org")?;
        self.owned(by, "an attribute such as org")
    }
}
