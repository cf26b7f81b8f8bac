//! The limits of a rule, each bound to the bucket of its counters.

use std::collections::HashMap;
use std::time::Duration;

use super::super::compiled::{Bound, Distinct, Rule, RuleLimit};
use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::expr::Expr;
use super::super::source::{At, Place};
use super::super::written::{self, Document, Written};
use super::rule::Compiler;
use super::unknown;
use crate::{Bucket, Limit};

/// Binds a limit of a rule to its bucket.
///
/// The bucket's number depends on the limit, not on its place in a list: limits can be reordered,
/// and rules that share a bucket and a limit share counters.
pub(crate) fn bind(limit: Limit, domain: &str, bucket: &str) -> Bound {
    let number = Bucket::of(&[domain, bucket, &limit.to_string()]);
    Bound { limit, bucket: number }
}

/// A calendar limit without a time zone runs on the file's.
pub(crate) fn in_zone(limit: Limit, zone: Option<&str>) -> Limit {
    match (zone, limit.time_zone()) {
        (Some(zone), None) if limit.is_calendar() => limit.clone().calendar(zone).unwrap_or(limit),
        _ => limit,
    }
}

impl Compiler<'_> {
    fn zone(&self) -> Option<&str> {
        self.document.defaults.timezone.as_ref().map(|zone| zone.as_str())
    }

    fn bind(&self, limit: &Limit, bucket: &str) -> Bound {
        bind(in_zone(limit.clone(), self.zone()), self.domain, bucket)
    }

    /// One element of a rule's `limit`.
    pub(super) fn limit(
        &self,
        written: &At<Written>,
        bucket: &str,
        found: &mut Diagnostics,
    ) -> Option<RuleLimit> {
        match &written.value {
            Written::Limit(limit) => Some(RuleLimit::Fixed(self.bind(limit, bucket))),
            Written::Plan { limit, options } => {
                self.plan(limit, options, written.place, bucket, found)
            }
            Written::Distinct { count, attribute, window } => {
                match self.distinct(*count, attribute, *window, bucket) {
                    Ok(distinct) => Some(RuleLimit::Distinct(Box::new(distinct))),
                    Err(problem) => {
                        found.push(Diagnostic::error("bad-limit", written.place, problem));
                        None
                    }
                }
            }
        }
    }

    fn plan(
        &self,
        name: &str,
        options: &str,
        place: Place,
        bucket: &str,
        found: &mut Diagnostics,
    ) -> Option<RuleLimit> {
        let plans = &self.document.plans;
        let limits = |plan: &written::Plan| -> Vec<At<Limit>> {
            let named = plan.limits.iter().filter(|(known, _)| known.value == name);
            named.flat_map(|(_, limits)| limits.clone()).collect()
        };
        if plans.iter().all(|plan| limits(plan).is_empty()) {
            let known = plans.iter().flat_map(|plan| &plan.limits).map(|(name, _)| name.as_str());
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            known.dedup();
            let what = "plan limit";
            found.push(unknown("unknown-plan-limit", what, name, known.into_iter(), place));
            return None;
        }
        let with_options = |limit: At<Limit>, found: &mut Diagnostics| {
            if options.is_empty() {
                return Some(self.bind(&limit, bucket));
            }
            match format!("{} {options}", limit.value).parse::<Limit>() {
                Ok(limit) => Some(self.bind(&limit, bucket)),
                Err(error) => {
                    let message =
                        format!("`{options}` does not go with {}: {}", limit.value, error.message);
                    let problem = Diagnostic::error("bad-limit", place, message);
                    found.push(problem.related(limit.place, "the plan's limit"));
                    None
                }
            }
        };
        let by_plan = plans
            .iter()
            .map(|plan| {
                limits(plan).into_iter().filter_map(|limit| with_options(limit, found)).collect()
            })
            .collect();
        Some(RuleLimit::Plan { name: name.into(), by_plan })
    }

    fn distinct(
        &self,
        count: u64,
        attribute: &str,
        window: Duration,
        bucket: &str,
    ) -> Result<Distinct, String> {
        let problem = |error: crate::limit::InvalidLimit| error.to_string();
        let of = Expr::compile(attribute, self.scope).map_err(|fault| fault.message)?;
        let seen = Limit::new(1, window).and_then(Limit::log).map_err(problem)?;
        let count = Limit::new(count, window).and_then(Limit::log).map_err(problem)?;
        let seen_bucket = format!("{bucket} seen {attribute}");
        Ok(Distinct {
            name: attribute.into(),
            of,
            seen: bind(seen, self.domain, &seen_bucket),
            count: bind(count, self.domain, &format!("{bucket} distinct {attribute}")),
        })
    }
}

/// Rules that share a bucket share its counters, so they must agree on what is counted.
pub(super) fn check_shared_buckets(rules: &[Rule], document: &Document, found: &mut Diagnostics) {
    let written: HashMap<&str, &written::Rule> =
        document.rules.iter().map(|rule| (rule.name.as_str(), rule)).collect();
    let mut first: HashMap<&str, &Rule> = HashMap::new();
    for rule in rules.iter().filter(|rule| !rule.limits.is_empty()) {
        let Some(earlier) = first.insert(&rule.bucket, rule) else { continue };
        let (Some(one), Some(other)) = (written.get(&*earlier.name), written.get(&*rule.name))
        else {
            continue;
        };
        let what = match (same(&one.per, &other.per), same(&one.limits, &other.limits)) {
            (true, true) => continue,
            (false, _) => "`per`",
            (true, false) => "`limit`",
        };
        let message =
            format!("the bucket {:?} is shared by rules that differ in {what}", rule.bucket);
        let at = other.bucket.as_ref().map_or(other.name.place, |bucket| bucket.place);
        found.push(
            Diagnostic::error("bucket-mismatch", at, message)
                .related(one.name.place, "the other rule")
                .help("rules that share a bucket count the same things by the same limit"),
        );
    }
}

/// Whether two lists say the same, wherever they stand.
fn same<T: PartialEq>(one: &[At<T>], other: &[At<T>]) -> bool {
    one.iter().map(|at| &at.value).eq(other.iter().map(|at| &at.value))
}
