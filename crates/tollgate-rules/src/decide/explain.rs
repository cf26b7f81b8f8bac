//! Explains a decision: how every rule applies to a request.

use std::time::Duration;

use serde::Serialize;
use tollgate_core::{Time, Verdict};

use crate::Request;
use crate::actions::queue::AttemptKind;
use crate::compile::domain::{CompiledRule, Domain};
use crate::compile::policy::Mode;
use crate::decide::decide_request::{Charging, MatchedRequest, decide};
use crate::decide::decision::Decision;
use crate::decide::limiter::LimiterState;
use crate::matching::matcher::Miss;
use crate::matching::request_facts::RequestFacts;
use crate::matching::rule_checks::{self, LimitCheckKind, LimitOrigin, RuleChecks};
use tollgate::Store;

/// How the rules of a domain apply to a request.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The domain of the rules; none if there is no domain of that name.
    pub domain: Option<String>,
    /// The address of the client.
    pub ip: Option<String>,
    /// Whether the request passes.
    pub allowed: bool,
    /// The reason.
    pub reason: &'static str,
    /// The status.
    pub code: u16,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The delay of the request.
    pub wait_ms: u64,
    /// When to retry, rounded up.
    pub retry_after_ms: Option<u64>,
    /// The decision in a sentence.
    pub summary: String,
    /// Every rule of the domain.
    pub rules: Vec<RuleExplanation>,
}

/// How one rule applies to a request.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RuleExplanation {
    /// The name of the rule.
    pub name: String,
    /// Whether the rule matches the request.
    pub matches: bool,
    /// The reason why the rule does not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// The current mode of the rule.
    pub mode: String,
    /// The mode in the rule file, if another one was set at run time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<String>,
    /// The action of the rule over its limit.
    pub then: &'static str,
    /// The name of its counters.
    pub bucket: String,
    /// The key of the counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The attributes of the key that the request lacks: all such requests share one counter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// How long the key is still banned by the rule's ladder, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub banned_ms: Option<u64>,
    /// Whether a request with the same id was charged before, so that this one is not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// The limits of the rule for this request.
    pub limits: Vec<LimitExplanation>,
}

/// The state of one limit.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LimitExplanation {
    /// The limit.
    pub limit: String,
    /// The source of the limit: `rule`, `plan free`, `override`.
    pub from: String,
    /// The cost of the check.
    pub cost: u64,
    /// The amount that the request must leave for more important requests and other tenants.
    #[serde(skip_serializing_if = "is_nothing")]
    pub reserve: u64,
    /// Whether the limit allows the request.
    pub allowed: bool,
    /// The capacity.
    pub capacity: u64,
    /// The remaining amount, after the request if it is allowed.
    pub remaining: u64,
    /// When to retry, rounded up.
    pub retry_after_ms: Option<u64>,
    /// When the limit is full again, rounded up.
    pub reset_after_ms: u64,
    /// The delay of the request by this limit.
    pub wait_ms: u64,
}

pub(crate) async fn explain<S: Store>(
    limiter: &LimiterState<S>,
    request: &Request<'_>,
) -> Explanation {
    let active = limiter.current.load_full();
    #[cfg(feature = "envoy")]
    if let Some(tree) = active.rules.tree_of(request) {
        return tree.explain_request(limiter, &active.hasher, request).await;
    }
    let mut decision = Decision::none();
    decide(limiter, request, Charging::Dry, AttemptKind::DecideOnly, &mut decision).await;
    let domain = active.rules.domain_of(request);
    let mut ip = None;
    let now = limiter.clock.now();
    let date = limiter.clock.date(now);
    let request_checks = domain.and_then(|domain| {
        let facts = RequestFacts::new(request, &domain.compiled.reading);
        ip = facts.ip().map(|ip| ip.to_string());
        rule_checks::of_limits(domain, &facts, date)
    });
    let auxiliary = match (domain, &request_checks) {
        (Some(domain), Some(request_checks)) => {
            MatchedRequest::new(limiter, &active, domain, request_checks, now, Charging::Dry)
                .auxiliary_verdicts()
                .await
        }
        _ => Vec::new(),
    };
    let rules = domain.map(|domain| {
        let facts = RequestFacts::new(request, &domain.compiled.reading);
        let explained = domain.compiled.rules.iter().enumerate().map(|(number, rule)| {
            let why_not = why_not(domain, number as u32, rule, &facts, date);
            explain_rule(
                domain,
                number as u32,
                date,
                why_not,
                request_checks.as_ref(),
                &auxiliary,
                &decision,
            )
        });
        explained.collect()
    });
    Explanation {
        domain: domain.map(|domain| domain.name.to_string()),
        ip,
        allowed: decision.allowed,
        reason: decision.reason.as_str(),
        code: decision.code,
        rule: decision.rule().map(Into::into),
        wait_ms: millis_up(decision.wait),
        retry_after_ms: decision.retry_after.map(millis_up),
        summary: decision.to_string(),
        rules: rules.unwrap_or_default(),
    }
}

/// Returns the reason why a rule does not match a request.
fn why_not(
    domain: &Domain,
    number: u32,
    rule: &CompiledRule,
    facts: &RequestFacts<'_>,
    date: Time,
) -> Option<String> {
    let miss = domain.compiled.matcher.miss(number, facts, &domain.lists).map(|miss| match miss {
        Miss::Route => "its route is another".to_owned(),
        Miss::When => "its condition does not hold".to_owned(),
    });
    let is_off = || domain.mode_of(number, date) == Mode::Off;
    let miss = miss.or_else(|| is_off().then(|| "it is switched off".to_owned()));
    let asleep = || rule.during.as_ref().is_some_and(|during| !during.covers(date));
    miss.or_else(|| asleep().then(|| "it is not in force at this time".to_owned()))
}

fn explain_rule(
    domain: &Domain,
    number: u32,
    date: Time,
    why_not: Option<String>,
    request_checks: Option<&RuleChecks<'_>>,
    auxiliary: &[(usize, Verdict)],
    decision: &Decision,
) -> RuleExplanation {
    let rule = &domain.compiled.rules[number as usize];
    let found = request_checks.and_then(|request_checks| {
        let index =
            request_checks.rule_checks.iter().position(|rule_check| rule_check.rule == number)?;
        Some((request_checks, index))
    });
    let mut why_not = why_not;
    if why_not.is_none() && found.is_none() && request_checks.is_some() && !rule.limits.is_empty() {
        why_not = Some("the request lacks an attribute it counts by".to_owned());
    }
    // Finds the refused auxiliary check of a kind.
    let refused_check = |kind| {
        let (request_checks, index) = found?;
        let is_refused = |(position, verdict): &&(usize, Verdict)| {
            let limit_check = &request_checks.limit_checks[*position];
            limit_check.rule_check == index && limit_check.kind == kind && !verdict.allowed
        };
        auxiliary.iter().find(is_refused).map(|(_, verdict)| verdict)
    };
    let banned = refused_check(LimitCheckKind::Ban).and_then(Verdict::retry_after);
    let mode = domain.mode_of(number, date);
    RuleExplanation {
        banned_ms: banned.map(|rest| millis_up(rest.into())),
        repeated: refused_check(LimitCheckKind::Dedupe).is_some(),
        name: rule.name.to_string(),
        matches: why_not.is_none(),
        why_not,
        mode: mode.to_string(),
        file_mode: (mode != rule.mode).then(|| rule.mode.to_string()),
        then: rule.then.name(),
        bucket: rule.bucket.to_string(),
        key: found.map(|(request_checks, index)| {
            request_checks.key(&request_checks.rule_checks[index]).to_owned()
        }),
        missing: missing_attributes(number, decision),
        limits: found.map_or_else(Vec::new, |(request_checks, index)| {
            explain_limits(domain, request_checks, index, decision)
        }),
    }
}

/// Returns the attributes that the key of a rule lacks.
fn missing_attributes(number: u32, decision: &Decision) -> Vec<String> {
    let numbers = decision.incomplete_keys.iter().flatten().map(|incomplete| incomplete.rule);
    let mut incomplete = numbers.zip(decision.incomplete_keys());
    incomplete
        .find(|(rule, _)| *rule == number)
        .map_or_else(Vec::new, |(_, incomplete)| incomplete.attributes())
}

fn explain_limits(
    domain: &Domain,
    request_checks: &RuleChecks<'_>,
    index: usize,
    decision: &Decision,
) -> Vec<LimitExplanation> {
    let rule = request_checks.rule_checks[index].rule;
    // Limits and checks have the order of the rules.
    let mut states = decision.limits.iter().filter(|state| state.rule == rule);
    let limit_checks = request_checks.limit_checks.iter();
    let limit_checks = limit_checks.filter(|limit_check| {
        let is_reported =
            limit_check.kind != LimitCheckKind::DistinctSeen && !limit_check.kind.is_auxiliary();
        limit_check.rule_check == index && is_reported
    });
    limit_checks
        .filter_map(|limit_check| {
            let state = states.next()?;
            let verdict = &state.verdict;
            Some(LimitExplanation {
                limit: limit_check.bound.limit.to_string(),
                from: match limit_check.origin {
                    LimitOrigin::Rule => "rule".to_owned(),
                    LimitOrigin::Override => "override".to_owned(),
                    LimitOrigin::Plan(plan) => {
                        let name = domain.compiled.plans.names.get(plan as usize);
                        format!("plan {}", name.map_or("", |name| name))
                    }
                },
                cost: limit_check.cost,
                reserve: state.reserve.amount(verdict.limit),
                allowed: verdict.allowed,
                capacity: verdict.limit,
                remaining: verdict.remaining,
                retry_after_ms: verdict.retry_after().map(|span| millis_up(span.into())),
                reset_after_ms: millis_up(verdict.reset_after.into()),
                wait_ms: millis_up(verdict.wait.into()),
            })
        })
        .collect()
}

fn is_nothing(amount: &u64) -> bool {
    *amount == 0
}

/// Returns whole milliseconds, rounded up.
pub(crate) fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
