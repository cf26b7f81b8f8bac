//! One rule.

use std::collections::BTreeSet;

use super::super::compiled::{Bound, Cost, CostOf, KeyPart, PriorityOf, Rule, RuleLimit};
use super::super::dedupe::{self, Dedupe};
use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::expr::{Condition, Expr, Scope};
use super::super::ladder::Ladder;
use super::super::matcher::Match;
use super::super::policy::{Priority, Then};
use super::super::source::{At, Place};
use super::super::written::{self, Document, When, Written};
use super::{kept, key};

/// What the rules of one file have in common.
pub(super) struct Compiler<'a> {
    pub(super) document: &'a Document,
    pub(super) domain: &'a str,
    pub(super) scope: &'a Scope,
}

impl Compiler<'_> {
    /// Compiles a rule: what it is matched by, and what it does.
    pub(super) fn rule(
        &self,
        rule: &written::Rule,
        found: &mut Diagnostics,
    ) -> Option<(Match, Rule)> {
        let before = found.errors().count();
        let defaults = &self.document.defaults;
        let bucket = rule.bucket.as_ref().unwrap_or(&rule.name).as_str();
        let compiled = Rule {
            place: rule.name.place,
            name: rule.name.as_str().into(),
            bucket: bucket.into(),
            per: self.per(rule, found),
            limits: rule
                .limits
                .iter()
                .filter_map(|limit| self.kept_limit(rule, limit, bucket, found))
                .collect(),
            cost: rule.cost.as_ref().map(|cost| self.cost(cost, found)),
            count: rule.count.as_ref().and_then(|text| self.condition(text, found)),
            outcome: Box::default(),
            then: rule.then.as_ref().map(|then| then.value.clone()).unwrap_or_default(),
            ladder: self.ladder(rule, bucket, found),
            mode: rule.mode,
            during: rule.during.as_ref().map(|during| {
                let zone = defaults.timezone.as_ref().map(|zone| zone.as_str());
                during.value.clone().in_zone(zone)
            }),
            on_error: rule.on_error.unwrap_or(defaults.on_error),
            missing_key: rule.missing_key.unwrap_or(defaults.missing_key),
            priority: self.priority(rule, found),
            consistency: rule.consistency.unwrap_or(defaults.consistency),
            fair: rule.fair.as_ref().and_then(|text| self.key_part(text, found)),
            dedupe: self.dedupe(rule, bucket, found),
        };
        let compiled = Rule { outcome: outcome(&compiled), ..compiled };
        let when = rule.when.as_ref().and_then(|when| self.when(when, found));
        let routes = rule.routes.iter().map(|route| route.value.clone()).collect();
        (found.errors().count() == before).then_some((Match { routes, when }, compiled))
    }

    /// A limit of which something is kept for others, if the rule says so.
    fn kept_limit(
        &self,
        rule: &written::Rule,
        written: &At<Written>,
        bucket: &str,
        found: &mut Diagnostics,
    ) -> Option<RuleLimit> {
        let limit = self.limit(written, bucket, found)?;
        let then = rule.then.as_ref().map(|then| then.value.clone()).unwrap_or_default();
        let fair = rule.fair.is_some();
        let check = |bound: &Bound| kept::check(&bound.limit, &then, fair, written.place).err();
        if let Some(problem) = limit.bounds().find_map(check) {
            found.push(problem);
        }
        Some(limit)
    }

    /// The counters behind a ban. A rule without limits refuses outright, and bans nobody.
    fn ladder(
        &self,
        rule: &written::Rule,
        bucket: &str,
        found: &mut Diagnostics,
    ) -> Option<Box<Ladder>> {
        let then = rule.then.as_ref().filter(|_| !rule.limits.is_empty())?;
        let Then::Ban(ban) = &then.value else { return None };
        match Ladder::new(ban, self.domain, bucket) {
            Ok(ladder) => Some(Box::new(ladder)),
            Err(error) => {
                let message = format!("these bans cannot be kept: {error}");
                found.push(
                    Diagnostic::error("bad-then", then.place, message)
                        .help("use shorter bans, fewer of them, or fewer denials"),
                );
                None
            }
        }
    }

    /// What tells a request of a rule from another.
    fn dedupe(
        &self,
        rule: &written::Rule,
        bucket: &str,
        found: &mut Diagnostics,
    ) -> Option<Box<Dedupe>> {
        let (by, lasts) = rule.dedupe.as_ref()?;
        let of = self.expr(by, found)?;
        let lasts = lasts.unwrap_or(dedupe::REMEMBERED_FOR);
        match Dedupe::new(of, lasts, self.domain, bucket) {
            Ok(dedupe) => Some(Box::new(dedupe)),
            Err(error) => {
                let message = format!("an id cannot be remembered for so long: {error}");
                found.push(Diagnostic::error("bad-duration", by.place, message));
                None
            }
        }
    }

    fn per(&self, rule: &written::Rule, found: &mut Diagnostics) -> Vec<KeyPart> {
        rule.per.iter().filter_map(|text| self.key_part(text, found)).collect()
    }

    fn key_part(&self, text: &At<String>, found: &mut Diagnostics) -> Option<KeyPart> {
        let prefix = self.document.defaults.ipv6_prefix.unwrap_or(key::IPV6_PREFIX);
        let part = key::part(text, self.scope, prefix);
        part.map_err(|fault| found.push(fault.at("expression", text.place))).ok()
    }

    fn when(&self, when: &At<When>, found: &mut Diagnostics) -> Option<Condition> {
        let compiled = match &when.value {
            When::Expression(text) => {
                Condition::compile(text, self.scope).map_err(|fault| (when.place, fault))
            }
            When::Fields(fields) => Condition::fields(fields, self.scope),
        };
        compiled
            .map_err(|(place, fault): (Place, _)| found.push(fault.at("expression", place)))
            .ok()
    }

    fn condition(&self, text: &At<String>, found: &mut Diagnostics) -> Option<Condition> {
        let compiled = Condition::compile(text, self.scope);
        compiled.map_err(|fault| found.push(fault.at("expression", text.place))).ok()
    }

    fn expr(&self, text: &At<String>, found: &mut Diagnostics) -> Option<Expr> {
        let compiled = Expr::compile(text, self.scope);
        compiled.map_err(|fault| found.push(fault.at("expression", text.place))).ok()
    }

    fn priority(&self, rule: &written::Rule, found: &mut Diagnostics) -> PriorityOf {
        let Some(At { value, place }) = &rule.priority else {
            return PriorityOf::Fixed(Priority::default());
        };
        match value {
            written::Priority::Word(word) => PriorityOf::Fixed(*word),
            written::Priority::Expression(text) => {
                let expr = self.expr(&At::new(text.clone(), *place), found);
                expr.map_or(PriorityOf::Fixed(Priority::default()), PriorityOf::Value)
            }
        }
    }

    fn cost(&self, cost: &written::Cost, found: &mut Diagnostics) -> Cost {
        let reserve = match cost.reserve.trim().parse() {
            Ok(fixed) => CostOf::Fixed(fixed),
            Err(_) => self.expr(&cost.reserve, found).map_or(CostOf::Fixed(1), CostOf::Value),
        };
        let settle = cost.settle.as_ref().and_then(|text| self.expr(text, found));
        Cost { reserve, otherwise: cost.otherwise, settle, expire: cost.expire }
    }
}

/// The attributes of the answer that a rule looks at, each once.
fn outcome(rule: &Rule) -> Box<[Box<str>]> {
    let count = rule.count.iter().flat_map(Condition::attributes);
    let settle = rule.settle().into_iter().flat_map(Expr::attributes);
    let late = count.chain(settle).filter(|attribute| attribute.is_late());
    let names: BTreeSet<Box<str>> = late.map(|attribute| attribute.to_string().into()).collect();
    names.into_iter().collect()
}
