//! Compiles one rule.

use std::collections::BTreeSet;

use super::{key, reserve};
use crate::actions::dedupe::{self, Dedupe};
use crate::actions::ladder::Ladder;
use crate::compile::domain::{
    BoundLimit, CompiledCost, CompiledRule, CostSource, KeyPart, PrioritySource, RuleLimit,
};
use crate::compile::expr::{Condition, Expr, Scope};
use crate::compile::policy::{Priority, Then};
use crate::compile::route::Route;
use crate::matching::matcher::MatchCriteria;
use crate::read::definition::{
    CostDefinition, Document, LimitDefinition, PriorityDefinition, RuleDefinition, WhenDefinition,
};
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::source::{SourceSpan, Spanned};

/// Compiles the rules of one file.
pub(super) struct RuleCompiler<'a> {
    pub(super) document: &'a Document,
    pub(super) domain: &'a str,
    pub(super) scope: &'a Scope,
}

impl RuleCompiler<'_> {
    /// Compiles a rule into its match criteria and the rest.
    pub(super) fn rule(
        &self,
        rule: &RuleDefinition,
        diagnostics: &mut Diagnostics,
    ) -> Option<(MatchCriteria, CompiledRule)> {
        let before = diagnostics.errors().count();
        let defaults = &self.document.defaults;
        let bucket = rule.bucket.as_ref().unwrap_or(&rule.name).as_str();
        let compiled = CompiledRule {
            span: rule.name.span,
            name: rule.name.as_str().into(),
            bucket: bucket.into(),
            per: self.per(rule, diagnostics),
            limits: rule
                .limits
                .iter()
                .filter_map(|limit| self.checked_limit(rule, limit, bucket, diagnostics))
                .collect(),
            cost: rule.cost.as_ref().map(|cost| self.cost(cost, diagnostics)),
            count: rule.count.as_ref().and_then(|text| self.condition(text, diagnostics)),
            outcome: Box::default(),
            then: rule.then.as_ref().map(|then| then.value.clone()).unwrap_or_default(),
            ladder: self.ladder(rule, bucket, diagnostics),
            mode: rule.mode,
            during: rule.during.as_ref().map(|during| {
                let zone = defaults.timezone.as_ref().map(|zone| zone.as_str());
                during.value.clone().in_zone(zone)
            }),
            on_error: rule.on_error.unwrap_or(defaults.on_error),
            missing_key: rule.missing_key.unwrap_or(defaults.missing_key),
            priority: self.priority(rule, diagnostics),
            consistency: rule.consistency.unwrap_or(defaults.consistency),
            fair: rule.fair.as_ref().and_then(|text| self.key_part(text, diagnostics)),
            dedupe: self.dedupe(rule, bucket, diagnostics),
            has_units: false,
        };
        let has_unit =
            |limit: &RuleLimit| limit.bound().any(|bound| bound.limit.unit_label().is_some());
        let has_units = compiled.limits.iter().any(has_unit);
        let compiled = CompiledRule { outcome: outcome(&compiled), has_units, ..compiled };
        let when = rule.when.as_ref().and_then(|when| self.when(when, diagnostics));
        let read = |route: &Spanned<Route>| route.value.clone().read_as(defaults.path);
        let routes = rule.routes.iter().map(read).collect();
        let criteria = MatchCriteria::new(routes, when).exempting(compiled.then == Then::Allow);
        (diagnostics.errors().count() == before).then_some((criteria, compiled))
    }

    /// Compiles a limit, and checks that `shed` and `fair` can reserve a part of it.
    fn checked_limit(
        &self,
        rule: &RuleDefinition,
        definition: &Spanned<LimitDefinition>,
        bucket: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<RuleLimit> {
        let limit = self.limit(definition, bucket, diagnostics)?;
        let then = rule.then.as_ref().map(|then| then.value.clone()).unwrap_or_default();
        let fair = rule.fair.is_some();
        let check =
            |bound: &BoundLimit| reserve::check(&bound.limit, &then, fair, definition.span).err();
        if let Some(problem) = limit.bounds().find_map(check) {
            diagnostics.push(problem);
        }
        Some(limit)
    }

    /// Creates the counters of a ban. A rule without limits refuses outright, and bans no key.
    fn ladder(
        &self,
        rule: &RuleDefinition,
        bucket: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Box<Ladder>> {
        let then = rule.then.as_ref().filter(|_| !rule.limits.is_empty())?;
        let Then::Ban(ban) = &then.value else { return None };
        match Ladder::new(ban, self.domain, bucket) {
            Ok(ladder) => Some(Box::new(ladder)),
            Err(error) => {
                let message = format!("these bans cannot be counted: {error}");
                diagnostics.push(
                    Diagnostic::error("bad-then", then.span, message)
                        .help("use shorter bans, fewer of them, or fewer denials"),
                );
                None
            }
        }
    }

    /// Compiles the expression that identifies a request.
    fn dedupe(
        &self,
        rule: &RuleDefinition,
        bucket: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Box<Dedupe>> {
        let (by, lasts) = rule.dedupe.as_ref()?;
        let of = self.expr(by, diagnostics)?;
        let lasts = lasts.unwrap_or(dedupe::REMEMBERED_FOR);
        match Dedupe::new(of, lasts, self.domain, bucket) {
            Ok(dedupe) => Some(Box::new(dedupe)),
            Err(error) => {
                let message = format!("an id cannot be remembered for so long: {error}");
                diagnostics.push(Diagnostic::error("bad-duration", by.span, message));
                None
            }
        }
    }

    fn per(&self, rule: &RuleDefinition, diagnostics: &mut Diagnostics) -> Vec<KeyPart> {
        rule.per.iter().filter_map(|text| self.key_part(text, diagnostics)).collect()
    }

    fn key_part(&self, text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<KeyPart> {
        let prefix = self.document.defaults.ipv6_prefix.unwrap_or(key::IPV6_PREFIX);
        let part = key::part(text, self.scope, prefix);
        part.map_err(|fault| diagnostics.push(fault.into_diagnostic("expression", text.span))).ok()
    }

    fn when(
        &self,
        when: &Spanned<WhenDefinition>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Condition> {
        let compiled = match &when.value {
            WhenDefinition::Expression(text) => {
                Condition::compile(text, self.scope).map_err(|fault| (when.span, fault))
            }
            WhenDefinition::Fields(fields) => Condition::fields(fields, self.scope),
        };
        compiled
            .map_err(|(span, fault): (SourceSpan, _)| {
                diagnostics.push(fault.into_diagnostic("expression", span))
            })
            .ok()
    }

    fn condition(
        &self,
        text: &Spanned<String>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Condition> {
        let compiled = Condition::compile(text, self.scope);
        compiled
            .map_err(|fault| diagnostics.push(fault.into_diagnostic("expression", text.span)))
            .ok()
    }

    fn expr(&self, text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Expr> {
        let compiled = Expr::compile(text, self.scope);
        compiled
            .map_err(|fault| diagnostics.push(fault.into_diagnostic("expression", text.span)))
            .ok()
    }

    fn priority(&self, rule: &RuleDefinition, diagnostics: &mut Diagnostics) -> PrioritySource {
        let Some(Spanned { value, span }) = &rule.priority else {
            return PrioritySource::Fixed(Priority::default());
        };
        match value {
            PriorityDefinition::Word(word) => PrioritySource::Fixed(*word),
            PriorityDefinition::Expression(text) => {
                let expr = self.expr(&Spanned::new(text.clone(), *span), diagnostics);
                expr.map_or(PrioritySource::Fixed(Priority::default()), PrioritySource::Value)
            }
        }
    }

    fn cost(&self, cost: &CostDefinition, diagnostics: &mut Diagnostics) -> CompiledCost {
        let reserve = match cost.reserve.trim().parse() {
            Ok(fixed) => CostSource::Fixed(fixed),
            Err(_) => self
                .expr(&cost.reserve, diagnostics)
                .map_or(CostSource::Fixed(1), CostSource::Value),
        };
        let settle = cost.settle.as_ref().and_then(|text| self.expr(text, diagnostics));
        CompiledCost { reserve, otherwise: cost.otherwise, settle, expire: cost.expire }
    }
}

/// Returns the attributes of the response that a rule reads, each once.
fn outcome(rule: &CompiledRule) -> Box<[Box<str>]> {
    let count = rule.count.iter().flat_map(Condition::attributes);
    let settle = rule.settle().into_iter().flat_map(Expr::attributes);
    let late = count.chain(settle).filter(|attribute| attribute.is_late());
    let names: BTreeSet<Box<str>> = late.map(|attribute| attribute.to_string().into()).collect();
    names.into_iter().collect()
}
