//! What rules say, for those who show them.

use std::time::Duration;

use super::Rules;
use super::compiled::{PriorityOf, Rule, RuleLimit};
use super::policy::{MissingKey, Mode, OnError, Priority, Then};
use crate::Consistency;

/// One rule, as whoever carries it out or shows it needs it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleInfo<'r> {
    /// The domain it is in.
    pub domain: &'r str,
    /// Its name.
    pub name: &'r str,
    /// The bucket its counters are in.
    pub bucket: &'r str,
    /// Its limits as they are written: `10/s burst 20`, `plan.api`, `3 distinct device/h`.
    pub limits: Vec<String>,
    /// What happens over the limit.
    pub then: &'r Then,
    /// Whether that counts.
    pub mode: Mode,
    /// What happens while the store does not answer.
    pub on_error: OnError,
    /// What happens to requests that lack an attribute of the key.
    pub missing_key: MissingKey,
    /// How important its requests are; none if each says so itself.
    pub priority: Option<Priority>,
    /// How closely nodes keep it.
    pub consistency: Consistency,
    /// When a cost that was never settled becomes final.
    pub expire: Option<Duration>,
}

impl Rules {
    /// Every rule, domain by domain.
    ///
    /// ```
    /// use tollgate::Rules;
    /// let rules: Rules = "rules: [{ name: api, per: ip, limit: [10/s, 1k/day] }]".parse()?;
    /// let limits: Vec<_> = rules.iter().flat_map(|rule| rule.limits).collect();
    /// assert_eq!(limits, ["10/s", "1k/day"]);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = RuleInfo<'_>> {
        self.domains()
            .iter()
            .flat_map(|domain| domain.compiled.rules.iter().map(|rule| info(&domain.name, rule)))
    }
}

fn info<'r>(domain: &'r str, rule: &'r Rule) -> RuleInfo<'r> {
    let limit = |limit: &RuleLimit| match limit {
        RuleLimit::Fixed(bound) => bound.limit.to_string(),
        RuleLimit::Plan { name, .. } => format!("plan.{name}"),
        RuleLimit::Distinct(distinct) => {
            let quota = distinct.count.limit.quota();
            let window = quota.period.map(|period| period.to_string()).unwrap_or_default();
            format!("{} distinct {}/{window}", quota.amount, distinct.name)
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
            PriorityOf::Fixed(priority) => Some(priority),
            PriorityOf::Value(_) => None,
        },
        consistency: rule.consistency,
        expire: rule.cost.as_ref().and_then(|cost| cost.expire),
    }
}
