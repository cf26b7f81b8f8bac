//! Descriptions of rules, for tools that show them.

use std::time::Duration;

use crate::Rules;
use crate::compile::domain::{BoundLimit, CompiledRule, PrioritySource, RuleLimit};
use crate::compile::policy::{MissingKey, Mode, OnError, Priority, Then};
use tollgate::Consistency;

/// The description of a rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleInfo<'r> {
    /// The domain.
    pub domain: &'r str,
    /// The name.
    pub name: &'r str,
    /// The name of its counters.
    pub bucket: &'r str,
    /// The limits as they are written: `10/s burst 20`, `plan.api`, `3 distinct device/h`.
    pub limits: Vec<String>,
    /// The action over the limit.
    pub then: &'r Then,
    /// The mode.
    pub mode: Mode,
    /// The action while the store does not answer.
    pub on_error: OnError,
    /// The action for requests that lack an attribute of the key.
    pub missing_key: MissingKey,
    /// The priority of its requests; none if each request states its own.
    pub priority: Option<Priority>,
    /// The way in which nodes share its counters.
    pub consistency: Consistency,
    /// The time after which a cost that was never settled becomes final.
    pub expire: Option<Duration>,
    /// The most that any of its limits lets pass at once, of all plans.
    pub largest_burst: u64,
}

impl Rules {
    /// Iterates over the rules, domain by domain.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    /// let rules: Rules = "rules: [{ name: api, per: ip, limit: [10/s, 1k/day] }]".parse()?;
    /// let limits: Vec<_> = rules.iter().flat_map(|rule| rule.limits).collect();
    /// assert_eq!(limits, ["10/s", "1k/day"]);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = RuleInfo<'_>> {
        self.domains()
            .iter()
            .flat_map(|domain| domain.compiled.rules.iter().map(|rule| info(&domain.name, rule)))
    }
}

fn info<'r>(domain: &'r str, rule: &'r CompiledRule) -> RuleInfo<'r> {
    let limit = |limit: &RuleLimit| match limit {
        RuleLimit::Fixed(bound) => bound.limit.to_string(),
        RuleLimit::Plan { name, .. } => format!("plan.{name}"),
        RuleLimit::Distinct(distinct) => {
            let summary = distinct.count.limit.summary();
            let window = summary.period.map(|period| period.to_string()).unwrap_or_default();
            format!("{} distinct {}/{window}", summary.amount, distinct.name)
        }
    };
    RuleInfo {
        domain,
        name: &rule.name,
        bucket: &rule.bucket,
        limits: rule.limits.iter().map(limit).collect(),
        then: &rule.then,
        mode: rule.mode,
        on_error: rule.on_error,
        missing_key: rule.missing_key,
        priority: match rule.priority {
            PrioritySource::Fixed(priority) => Some(priority),
            PrioritySource::Value(_) => None,
        },
        consistency: rule.consistency,
        expire: rule.cost.as_ref().and_then(|cost| cost.expire),
        largest_burst: rule.limits.iter().map(largest_burst).max().unwrap_or(0),
    }
}

/// Returns the most that a limit of a rule lets pass at once, of all plans.
fn largest_burst(limit: &RuleLimit) -> u64 {
    let burst = |bound: &BoundLimit| bound.limit.summary().burst;
    match limit {
        RuleLimit::Fixed(bound) => burst(bound),
        RuleLimit::Plan { by_plan, .. } => by_plan.iter().flatten().map(burst).max().unwrap_or(0),
        RuleLimit::Distinct(distinct) => burst(&distinct.count),
    }
}
