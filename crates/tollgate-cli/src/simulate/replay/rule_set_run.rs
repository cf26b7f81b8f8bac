//! The run of a log under one set of rules.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use tollgate::limit::AlgorithmName;
use tollgate::testing::ManualClock;
use tollgate_rules::{Decision, Outcome, Request, RuleLimiter};

use super::key_denials::RuleKey;
use super::tally::{ReplayDecision, ReplayTally};
use crate::load;
use crate::log::LogEntry;
use crate::simulate::panel::Panel;

/// The name for denials without a rule.
const NO_RULE: &str = "(no rule)";

/// A run of a log under one set of rules.
#[derive(Debug)]
pub(super) struct RuleSetRun {
    /// The path of the rules.
    pub(super) name: String,
    /// The label in charts.
    pub(super) label: &'static str,
    limiter: RuleLimiter,
    /// The interned names of rules.
    names: HashMap<String, Arc<str>>,
    pub(super) tally: ReplayTally,
    /// Whether a concurrency limit was used, which a log cannot simulate.
    pub(super) concurrency: bool,
}

impl RuleSetRun {
    pub(super) fn open(
        path: &Path,
        label: &'static str,
        clock: &ManualClock,
    ) -> anyhow::Result<RuleSetRun> {
        let rules = load::rules(path)?;
        let limiter = RuleLimiter::builder().clock(clock).build(rules);
        let (name, names) = (path.display().to_string(), HashMap::new());
        Ok(RuleSetRun {
            name,
            label,
            limiter,
            names,
            tally: ReplayTally::new(),
            concurrency: false,
        })
    }

    /// Decides an entry at the time of the clock, and counts it.
    pub(super) fn step(
        &mut self,
        entry: &LogEntry,
        domain: Option<&str>,
        at_us: u64,
    ) -> ReplayDecision {
        let of_domain = |request| match domain {
            Some(domain) => Request::domain(request, domain),
            None => request,
        };
        let outcome = entry.outcome();
        let request = of_domain(entry.request());
        let request = if outcome.is_some() { request } else { request.unreported() };
        let mut decision = self.limiter.decide_now(&request);
        let replayed = self.replay_decision(&request, &decision);
        if let Some(admission) = decision.take_admission() {
            // Rules that count outcomes or take their cost from the response charge now. The
            // memory store neither waits nor fails.
            let outcome = outcome.map(of_domain);
            let outcome = outcome.as_ref().map_or_else(Outcome::unknown, Outcome::of);
            let _ = admission.settle(outcome).now_or_never();
        }
        self.tally.record(at_us, &replayed);
        replayed
    }

    fn replay_decision(&mut self, request: &Request<'_>, decision: &Decision) -> ReplayDecision {
        let mut replayed = ReplayDecision {
            allowed: decision.allowed,
            wait_us: u64::try_from(decision.wait.as_micros()).unwrap_or(u64::MAX),
            ..ReplayDecision::default()
        };
        let mut shadows: Vec<Arc<str>> = Vec::new();
        for limit in decision.limits() {
            let rule = intern(&mut self.names, limit.rule);
            self.concurrency |= is_concurrency(limit.quota.algorithm);
            if !limit.enforced && !limit.verdict.allowed && !shadows.contains(&rule) {
                shadows.push(rule.clone());
            }
            if !replayed.matched.contains(&rule) {
                replayed.matched.push(rule);
            }
        }
        let decided = decision.rule().map(|rule| intern(&mut self.names, rule));
        replayed.matched.extend(decided.clone().filter(|rule| !replayed.matched.contains(rule)));
        let refused = (!decision.allowed)
            .then(|| decided.unwrap_or_else(|| intern(&mut self.names, NO_RULE)));
        if refused.is_none() && shadows.is_empty() {
            return replayed;
        }
        let key = decision.key().unwrap_or_default().to_owned();
        replayed.refused = refused.map(|rule| RuleKey { key, rule });
        if !shadows.is_empty() {
            // The keys of shadow rules are looked up only when they deny.
            let explanation = self.limiter.explain(request).now_or_never();
            let explanation = explanation.expect("the memory store does not wait");
            let rule_key = |rule: Arc<str>| {
                let found = explanation.rules.iter().find(|known| *known.name == *rule);
                RuleKey { key: found.and_then(|found| found.key.clone()).unwrap_or_default(), rule }
            };
            replayed.shadow = shadows.into_iter().map(rule_key).collect();
        }
        replayed
    }

    /// Returns the panel of a chart.
    pub(super) fn panel(&self) -> Panel<'_> {
        Panel {
            label: self.label,
            title: self.name.clone(),
            total: self.tally.total,
            timeline: &self.tally.timeline,
        }
    }
}

fn intern(names: &mut HashMap<String, Arc<str>>, rule: &str) -> Arc<str> {
    match names.get(rule) {
        Some(name) => name.clone(),
        None => names.entry(rule.to_owned()).or_insert(rule.into()).clone(),
    }
}

fn is_concurrency(algorithm: AlgorithmName) -> bool {
    matches!(algorithm, AlgorithmName::Concurrent | AlgorithmName::Adaptive)
}
