//! Compiles the limits of a rule and binds each to its counters.

use std::collections::HashMap;
use std::time::Duration;

use super::rule::RuleCompiler;
use super::unknown;
use crate::compile::domain::{BoundLimit, CompiledRule, DistinctLimit, RuleLimit};
use crate::compile::expr::Expr;
use crate::read::definition::{Document, LimitDefinition, PlanDefinition, RuleDefinition};
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::fault::Fault;
use crate::read::source::{SourceSpan, Spanned};
use tollgate::{CounterId, Limit};

/// Binds a limit of a rule to its counters.
///
/// The counter's id depends on the limit, not on its position in a list: limits can be reordered,
/// and rules that share a bucket and a limit share counters.
pub(crate) fn bind(limit: Limit, domain: &str, bucket: &str) -> BoundLimit {
    let number = CounterId::from_parts(&[domain, bucket, &limit.to_string()]);
    BoundLimit { limit, counter: number }
}

/// Gives a calendar limit without a time zone that of the file.
pub(crate) fn in_zone(limit: Limit, zone: Option<&str>) -> Limit {
    match (zone, limit.time_zone()) {
        (Some(zone), None) if limit.is_calendar() => limit.clone().calendar(zone).unwrap_or(limit),
        _ => limit,
    }
}

impl RuleCompiler<'_> {
    fn zone(&self) -> Option<&str> {
        self.document.defaults.timezone.as_ref().map(|zone| zone.as_str())
    }

    fn bind(&self, limit: &Limit, bucket: &str) -> BoundLimit {
        bind(in_zone(limit.clone(), self.zone()), self.domain, bucket)
    }

    /// Compiles one element of a rule's `limit`.
    pub(super) fn limit(
        &self,
        definition: &Spanned<LimitDefinition>,
        bucket: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<RuleLimit> {
        match &definition.value {
            LimitDefinition::Limit(limit) => Some(RuleLimit::Fixed(self.bind(limit, bucket))),
            LimitDefinition::Plan { limit, options } => {
                self.plan(limit, options, definition.span, bucket, diagnostics)
            }
            LimitDefinition::Distinct { count, attribute, window } => {
                match self.distinct(*count, attribute, *window, bucket) {
                    Ok(distinct) => Some(RuleLimit::Distinct(Box::new(distinct))),
                    Err(fault) => {
                        let code = fault.code.unwrap_or("bad-limit");
                        let mut problem = Diagnostic::error(code, definition.span, fault.message);
                        problem.help = fault.help;
                        diagnostics.push(problem);
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
        span: SourceSpan,
        bucket: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<RuleLimit> {
        let plans = &self.document.plans;
        let limits = |plan: &PlanDefinition| -> Vec<Spanned<Limit>> {
            let named = plan.limits.iter().filter(|(known, _)| known.value == name);
            named.flat_map(|(_, limits)| limits.clone()).collect()
        };
        if plans.iter().all(|plan| limits(plan).is_empty()) {
            let known = plans.iter().flat_map(|plan| &plan.limits).map(|(name, _)| name.as_str());
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            known.dedup();
            let known: Vec<String> = known.iter().map(|name| format!("plan.{name}")).collect();
            let whole = format!("plan.{name}");
            let known = known.iter().map(String::as_str);
            let mut problem = unknown("unknown-plan-limit", "plan limit", &whole, known, span);
            // The span includes the options behind the name.
            problem.fix =
                problem.fix.map(|meant| format!("{meant} {options}").trim_end().to_owned());
            diagnostics.push(problem);
            return None;
        }
        let with_options = |limit: Spanned<Limit>, diagnostics: &mut Diagnostics| {
            if options.is_empty() {
                return Some(self.bind(&limit, bucket));
            }
            match format!("{} {options}", limit.value).parse::<Limit>() {
                Ok(limit) => Some(self.bind(&limit, bucket)),
                Err(error) => {
                    let message =
                        format!("`{options}` does not go with {}: {}", limit.value, error.message);
                    let problem = Diagnostic::error("bad-limit", span, message);
                    diagnostics.push(problem.related(limit.span, "the plan's limit"));
                    None
                }
            }
        };
        let by_plan = plans
            .iter()
            .map(|plan| {
                limits(plan)
                    .into_iter()
                    .filter_map(|limit| with_options(limit, diagnostics))
                    .collect()
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
    ) -> Result<DistinctLimit, Fault> {
        let problem = |error: tollgate::limit::InvalidLimit| Fault::new(0..0, error.to_string());
        let value = Expr::compile(attribute, self.scope)?;
        let seen = Limit::new(1, window).and_then(Limit::log).map_err(problem)?;
        let count = Limit::new(count, window).and_then(Limit::log).map_err(problem)?;
        let seen_bucket = format!("{bucket} seen {attribute}");
        Ok(DistinctLimit {
            name: attribute.into(),
            value,
            seen: bind(seen, self.domain, &seen_bucket),
            count: bind(count, self.domain, &format!("{bucket} distinct {attribute}")),
        })
    }
}

/// Reports rules that share a bucket, and so its counters, but do not count the same.
pub(super) fn check_shared_buckets(
    rules: &[CompiledRule],
    document: &Document,
    diagnostics: &mut Diagnostics,
) {
    let definitions: HashMap<&str, &RuleDefinition> =
        document.rules.iter().map(|rule| (rule.name.as_str(), rule)).collect();
    let mut first: HashMap<&str, &CompiledRule> = HashMap::new();
    for rule in rules.iter().filter(|rule| !rule.limits.is_empty()) {
        let Some(earlier) = first.insert(&rule.bucket, rule) else { continue };
        let (Some(one), Some(other)) =
            (definitions.get(&*earlier.name), definitions.get(&*rule.name))
        else {
            continue;
        };
        let what =
            match (same_values(&one.per, &other.per), same_values(&one.limits, &other.limits)) {
                (true, true) => continue,
                (false, _) => "`per`",
                (true, false) => "`limit`",
            };
        let message =
            format!("the bucket {:?} is shared by rules that differ in {what}", rule.bucket);
        let at = other.bucket.as_ref().map_or(other.name.span, |bucket| bucket.span);
        diagnostics.push(
            Diagnostic::error("bucket-mismatch", at, message)
                .related(one.name.span, "the other rule")
                .help("rules that share a bucket count the same things by the same limit"),
        );
    }
}

/// Whether two lists have the same values, regardless of their spans.
fn same_values<T: PartialEq>(one: &[Spanned<T>], other: &[Spanned<T>]) -> bool {
    one.iter().map(|at| &at.value).eq(other.iter().map(|at| &at.value))
}
