//! One set of rules that a log runs through.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollgate::limit::AlgorithmName;
use tollgate::rules::{Decision, RuleLimiter};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request};

use super::keys::Who;
use super::tally::{Answer, Tally};
use crate::load;
use crate::log::Entry;
use crate::simulate::panel::Panel;

/// What refuses a request that no rule is about.
const NO_RULE: &str = "(no rule)";

#[derive(Debug)]
pub(super) struct Side {
    /// Where its rules are from.
    pub(super) name: String,
    /// What charts call it.
    pub(super) label: &'static str,
    limiter: RuleLimiter,
    /// One text for each rule's name.
    names: HashMap<String, Arc<str>>,
    pub(super) tally: Tally,
    /// Whether a limit on requests in flight was met, which a log cannot tell about.
    pub(super) concurrency: bool,
}

impl Side {
    pub(super) fn open(
        path: &Path,
        label: &'static str,
        clock: &ManualClock,
    ) -> anyhow::Result<Side> {
        let rules = load::rules(path)?;
        let limiter = Limiter::builder().clock(clock).build_rules(rules);
        let (name, names) = (path.display().to_string(), HashMap::new());
        Ok(Side { name, label, limiter, names, tally: Tally::new(), concurrency: false })
    }

    /// Decides an entry at the time the clock shows, and counts it.
    pub(super) fn step(&mut self, entry: &Entry, domain: Option<&str>, at_us: u64) -> Answer {
        let of_domain = |request| match domain {
            Some(domain) => Request::domain(request, domain),
            None => request,
        };
        let outcome = entry.outcome();
        let request = of_domain(entry.request());
        let request = if outcome.is_some() { request } else { request.unreported() };
        let decision = self.limiter.decide(&request);
        let answer = self.answer(&request, &decision);
        if decision.allowed {
            // What counts outcomes, or costs what the response says, is charged only now.
            if let Some(outcome) = outcome {
                self.limiter.settle(&decision, &of_domain(outcome));
            }
            self.limiter.release(&decision, Duration::ZERO);
        }
        self.tally.record(at_us, &answer);
        answer
    }

    fn answer(&mut self, request: &Request<'_>, decision: &Decision) -> Answer {
        let mut answer = Answer {
            allowed: decision.allowed,
            wait_us: u64::try_from(decision.wait.as_micros()).unwrap_or(u64::MAX),
            ..Answer::default()
        };
        let mut shadows: Vec<Arc<str>> = Vec::new();
        for limit in decision.limits() {
            let rule = named(&mut self.names, limit.rule);
            self.concurrency |= is_concurrency(limit.quota.algorithm);
            if !limit.enforced && !limit.verdict.allowed && !shadows.contains(&rule) {
                shadows.push(rule.clone());
            }
            if !answer.asked.contains(&rule) {
                answer.asked.push(rule);
            }
        }
        let decided = decision.rule().map(|rule| named(&mut self.names, rule));
        answer.asked.extend(decided.clone().filter(|rule| !answer.asked.contains(rule)));
        let refused =
            (!decision.allowed).then(|| decided.unwrap_or_else(|| named(&mut self.names, NO_RULE)));
        if refused.is_none() && shadows.is_empty() {
            return answer;
        }
        let key = decision.key().unwrap_or_default().to_owned();
        answer.refused = refused.map(|rule| Who { key, rule });
        if !shadows.is_empty() {
            // Only now is it worth knowing whose counters those were.
            let explanation = self.limiter.explain(request);
            let who = |rule: Arc<str>| {
                let found = explanation.rules.iter().find(|known| *known.name == *rule);
                Who { key: found.and_then(|found| found.key.clone()).unwrap_or_default(), rule }
            };
            answer.shadow = shadows.into_iter().map(who).collect();
        }
        answer
    }

    /// What is drawn of it.
    pub(super) fn panel(&self) -> Panel<'_> {
        Panel {
            label: self.label,
            title: self.name.clone(),
            total: self.tally.total,
            timeline: &self.tally.timeline,
        }
    }
}

fn named(names: &mut HashMap<String, Arc<str>>, rule: &str) -> Arc<str> {
    match names.get(rule) {
        Some(name) => name.clone(),
        None => names.entry(rule.to_owned()).or_insert(rule.into()).clone(),
    }
}

fn is_concurrency(algorithm: AlgorithmName) -> bool {
    matches!(algorithm, AlgorithmName::Concurrent | AlgorithmName::Adaptive)
}
