//! Why a request is answered as it is: what every rule makes of it.

use std::time::Duration;

use serde::Serialize;
use tollgate_core::{Time, Verdict};

use super::Request;
use super::compiled::{Domain, Rule};
use super::decide::{Asked, Charging, decide};
use super::decision::Decision;
use super::demand::{self, Demands, LineKind, Origin};
use super::facts::Facts;
use super::limiter::Shared;
use super::matcher::Miss;
use super::policy::Mode;
use super::room::Turn;
use crate::Store;

/// What rules make of a request.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The domain whose rules were asked; none if there is none of that name.
    pub domain: Option<String>,
    /// The client's address.
    pub ip: Option<String>,
    /// The answer.
    pub allowed: bool,
    /// Why.
    pub reason: &'static str,
    /// The status.
    pub code: u16,
    /// The rule that decided.
    pub rule: Option<String>,
    /// How long it is held back.
    pub wait_ms: u64,
    /// When to come back, rounded up.
    pub retry_after_ms: Option<u64>,
    /// In a sentence.
    pub summary: String,
    /// Every rule of the domain.
    pub rules: Vec<RuleExplanation>,
}

/// What one rule makes of a request.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RuleExplanation {
    /// Its name.
    pub name: String,
    /// Whether it is about the request.
    pub matches: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Its mode.
    pub mode: String,
    /// What the file says, if another mode was set while running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<String>,
    /// What it does with what it refuses.
    pub then: &'static str,
    /// The bucket its counters are in.
    pub bucket: String,
    /// Whose counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How long the key is still banned by the rule's ladder, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub banned_ms: Option<u64>,
    /// Whether a request with the same id was charged before, so that this one is not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Its limits for this request.
    pub limits: Vec<LimitExplanation>,
}

/// How one limit stands.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LimitExplanation {
    /// The limit.
    pub limit: String,
    /// Where it comes from: `rule`, `plan free`, `override`.
    pub from: String,
    /// What is asked of it.
    pub cost: u64,
    /// What it must leave for others: for more important requests, or for whom it shares with.
    #[serde(skip_serializing_if = "is_nothing")]
    pub reserve: u64,
    /// Whether it allows that.
    pub allowed: bool,
    /// The most it holds.
    pub capacity: u64,
    /// What is left: after the request if it is allowed.
    pub remaining: u64,
    /// When to come back, rounded up.
    pub retry_after_ms: Option<u64>,
    /// When everything is back, rounded up.
    pub reset_after_ms: u64,
    /// How long it holds the request back.
    pub wait_ms: u64,
}

pub(crate) async fn explain<S: Store>(limiter: &Shared<S>, request: &Request<'_>) -> Explanation {
    let mut decision = Decision::none();
    decide(limiter, request, Charging::Dry, Turn::Asked, &mut decision).await;
    let installed = limiter.current.load_full();
    let domain = installed.rules.domain_of(request);
    let mut ip = None;
    let now = limiter.clock.now();
    let demands = domain.and_then(|domain| {
        let facts = Facts::new(request, &domain.compiled.trust);
        ip = facts.ip().map(|ip| ip.to_string());
        demand::of(domain, &facts, now)
    });
    let asides = match (domain, &demands) {
        (Some(domain), Some(demands)) => {
            Asked::new(limiter, &installed, domain, demands, now, Charging::Dry).asides().await
        }
        _ => Vec::new(),
    };
    let rules = domain.map(|domain| {
        let facts = Facts::new(request, &domain.compiled.trust);
        let explained = domain.compiled.rules.iter().enumerate().map(|(number, rule)| {
            let why_not = why_not(domain, number as u32, rule, &facts, now);
            explain_rule(domain, number as u32, now, why_not, demands.as_ref(), &asides, &decision)
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

/// Why a rule is not about a request.
fn why_not(
    domain: &Domain,
    number: u32,
    rule: &Rule,
    facts: &Facts<'_>,
    now: Time,
) -> Option<String> {
    let miss = domain.compiled.matcher.miss(number, facts, &domain.lists).map(|miss| match miss {
        Miss::Route => "its route is another".to_owned(),
        Miss::When => "its condition does not hold".to_owned(),
    });
    let is_off = || domain.mode_of(number, now) == Mode::Off;
    let miss = miss.or_else(|| is_off().then(|| "it is switched off".to_owned()));
    let asleep = || rule.during.as_ref().is_some_and(|during| !during.covers(now));
    miss.or_else(|| asleep().then(|| "it is not in force at this time".to_owned()))
}

fn explain_rule(
    domain: &Domain,
    number: u32,
    now: Time,
    why_not: Option<String>,
    demands: Option<&Demands<'_>>,
    asides: &[(usize, Verdict)],
    decision: &Decision,
) -> RuleExplanation {
    let rule = &domain.compiled.rules[number as usize];
    let found = demands.and_then(|demands| {
        let index = demands.demands.iter().position(|demand| demand.rule == number)?;
        Some((demands, index))
    });
    let mut why_not = why_not;
    if why_not.is_none() && found.is_none() && demands.is_some() && !rule.limits.is_empty() {
        why_not = Some("the request lacks an attribute it counts by".to_owned());
    }
    // What was refused beside the limits, of that kind.
    let aside = |kind| {
        let (demands, index) = found?;
        let is_its = |(line, verdict): &&(usize, Verdict)| {
            let line = &demands.lines[*line];
            line.demand == index && line.kind == kind && !verdict.allowed
        };
        asides.iter().find(is_its).map(|(_, verdict)| verdict)
    };
    let banned = aside(LineKind::Ban).and_then(Verdict::retry_after);
    let mode = domain.mode_of(number, now);
    RuleExplanation {
        banned_ms: banned.map(|rest| millis_up(rest.into())),
        repeated: aside(LineKind::Once).is_some(),
        name: rule.name.to_string(),
        matches: why_not.is_none(),
        why_not,
        mode: mode.to_string(),
        file_mode: (mode != rule.mode).then(|| rule.mode.to_string()),
        then: rule.then.name(),
        bucket: rule.bucket.to_string(),
        key: found.map(|(demands, index)| demands.key(&demands.demands[index]).to_owned()),
        limits: found.map_or_else(Vec::new, |(demands, index)| {
            explain_limits(domain, demands, index, decision)
        }),
    }
}

fn explain_limits(
    domain: &Domain,
    demands: &Demands<'_>,
    index: usize,
    decision: &Decision,
) -> Vec<LimitExplanation> {
    let rule = demands.demands[index].rule;
    // Both are in the order of the rules.
    let mut states = decision.limits.iter().filter(|state| state.rule == rule);
    let lines = demands.lines.iter();
    let lines = lines.filter(|line| {
        let is_told = line.kind != LineKind::Seen && !line.kind.is_aside();
        line.demand == index && is_told
    });
    lines
        .filter_map(|line| {
            let state = states.next()?;
            let verdict = &state.verdict;
            Some(LimitExplanation {
                limit: line.bound.limit.to_string(),
                from: match line.origin {
                    Origin::Rule => "rule".to_owned(),
                    Origin::Override => "override".to_owned(),
                    Origin::Plan(plan) => {
                        let name = domain.compiled.plans.names.get(plan as usize);
                        format!("plan {}", name.map_or("", |name| name))
                    }
                },
                cost: line.cost,
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

/// Whole milliseconds, rounded up.
fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
