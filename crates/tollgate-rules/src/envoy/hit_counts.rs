//! The hits of descriptors, counted as the statistics of Envoy's own service count them.

use std::fmt;
use std::sync::Arc;

use tollgate_core::Verdict;

use super::check_plan::{CheckPlan, DescriptorPlan};
use super::planned_check::PlannedCheck;
use super::rate_limit::CountedLimit;
use super::{Descriptor, DescriptorEntries, DescriptorTree, MetricName, near_limit};
use crate::{Request, RuleLocation};
use tollgate::{Action, Check, Limit};

/// How many hits of a request were within and over a limit.
///
/// A request may cross a limit: then a part of its hits is within, and the rest over it.
///
/// ```
/// use tollgate_rules::envoy::HitCounts;
/// // The window had 7 of 10 hits, and 5 more came.
/// let hits = HitCounts::in_window(10, 5, 12);
/// assert_eq!((hits.total, hits.over, hits.near, hits.within), (5, 2, 2, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HitCounts {
    /// All hits (`total_hits`).
    pub total: u64,
    /// The hits over the limit (`over_limit`).
    pub over: u64,
    /// The hits within the limit, when more than 80 % of it were spent (`near_limit`).
    pub near: u64,
    /// The hits of requests that were within the limit as a whole (`within_limit`).
    pub within: u64,
    /// The hits over a limit in shadow mode (`shadow_mode`).
    pub shadow: u64,
}

impl HitCounts {
    /// Counts the hits of a request after which a window of `limit` has `after` hits.
    pub fn in_window(limit: u32, hits: u64, after: u64) -> HitCounts {
        let before = after.saturating_sub(hits);
        let (near, limit) = (u64::from(near_limit(limit)), u64::from(limit));
        let counts = HitCounts { total: hits, ..HitCounts::default() };
        match (after > limit, before >= limit) {
            (true, true) => HitCounts { over: hits, ..counts },
            (true, false) => {
                HitCounts { over: after - limit, near: limit - near.max(before), ..counts }
            }
            (false, _) => {
                HitCounts { within: hits, near: after.saturating_sub(near.max(before)), ..counts }
            }
        }
    }

    /// Counts the hits of a request by the verdict on one of its limits. `after` is the number of
    /// hits in the window, if it is known.
    fn from_verdict(step: &PlannedCheck<'_>, verdict: &Verdict, after: Option<u64>) -> HitCounts {
        let CountedLimit { requests, .. } = *step.counted.get();
        let hits = step.cost;
        let (limit, spent) = match step.action {
            Action::Spend => (requests, u64::from(requests).saturating_sub(verdict.remaining)),
            // Such a limit may hold more or less than the requests of a unit.
            _ => {
                let limit = u32::try_from(verdict.limit).unwrap_or(u32::MAX);
                (limit, verdict.limit.saturating_sub(verdict.remaining))
            }
        };
        let over = step.is_over(verdict);
        let spent = match (over, after) {
            (true, Some(after)) => after,
            // The limit was spent before: then all hits are over it.
            (true, None) => u64::from(limit).saturating_add(hits),
            (false, _) => spent,
        };
        HitCounts::in_window(limit, hits, spent)
    }
}

/// The hits of one descriptor of a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DescriptorHits<'a> {
    /// The descriptor among those of its domain that have a limit; the rule is none for the limits
    /// that requests have along.
    pub location: RuleLocation,
    /// The name of the descriptor, without values of requests.
    pub name: &'a MetricName,
    /// The name with values of the request, where the file requests them.
    pub name_by_value: Option<&'a MetricName>,
    /// The hits.
    pub counts: HitCounts,
}

/// The function that is called with the hits of each descriptor, if any.
#[derive(Clone, Default)]
pub(crate) struct HitListener(Option<Arc<HitObserver>>);

type HitObserver = dyn Fn(&DescriptorHits<'_>) + Send + Sync;

impl HitListener {
    pub(crate) fn new(observer: impl Fn(&DescriptorHits<'_>) + Send + Sync + 'static) -> Self {
        HitListener(Some(Arc::new(observer)))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    fn notify(&self, hits: &DescriptorHits<'_>) {
        if let Some(observer) = &self.0 {
            observer(hits);
        }
    }
}

impl fmt::Debug for HitListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HitListener").field(&self.0.is_some()).finish()
    }
}

/// The entries of descriptors, which name the statistics of some.
pub(crate) enum EntrySource<'a, 'r> {
    Descriptors(&'a [Descriptor<'r>]),
    Request(&'a Request<'r>),
}

/// Checks that read how many hits windows have that were exceeded by several hits at once.
pub(crate) struct WindowReading<'p, 't> {
    /// The numbers of the checks in the plan.
    steps: Vec<usize>,
    limits: Vec<Limit>,
    plan: &'p CheckPlan<'t>,
}

impl<'p, 't> WindowReading<'p, 't> {
    /// Finds the checks whose verdict does not tell which of their hits were over the limit.
    pub(crate) fn new(plan: &'p CheckPlan<'t>, verdicts: &[Verdict]) -> WindowReading<'p, 't> {
        let mut reading = WindowReading { steps: Vec::new(), limits: Vec::new(), plan };
        for (number, (step, verdict)) in plan.steps.iter().zip(verdicts).enumerate() {
            let is_partly_over = step.action == Action::Spend && step.cost > 1;
            if is_partly_over
                && step.is_over(verdict)
                && let Some(limit) = step.counted.get().widest()
            {
                reading.steps.push(number);
                reading.limits.push(limit);
            }
        }
        reading
    }

    /// Whether all verdicts tell enough.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the checks, to be peeked.
    pub(crate) fn checks(&self) -> Vec<Check<'_>> {
        let both = self.steps.iter().zip(&self.limits);
        both.map(|(step, limit)| self.plan.check_with(&self.plan.steps[*step], limit, 0)).collect()
    }

    /// Returns the number of hits in the window of a check, if it was read.
    fn after(&self, number: usize, verdicts: &[Verdict]) -> Option<u64> {
        let index = self.steps.iter().position(|step| *step == number)?;
        verdicts.get(index).map(|verdict| verdict.limit - verdict.remaining)
    }
}

impl CheckPlan<'_> {
    /// Passes the hits of each limited descriptor to a listener. `windows` has the verdicts on the
    /// checks of `reading`.
    pub(crate) fn report_hits(
        &self,
        tree: &DescriptorTree,
        source: &EntrySource<'_, '_>,
        verdicts: &[Verdict],
        (reading, windows): (&WindowReading<'_, '_>, &[Verdict]),
        listener: &HitListener,
    ) {
        for (index, item) in self.items.iter().enumerate() {
            let DescriptorPlan::Limited { steps, of } = item else { continue };
            let counted = steps.clone().filter_map(|number| {
                let (step, verdict) = (self.steps.get(number)?, verdicts.get(number)?);
                let is_counted = !matches!(step.action, Action::Refund);
                is_counted
                    .then(|| HitCounts::from_verdict(step, verdict, reading.after(number, windows)))
            });
            // Of several limits, the one that refused counts, or else the one that is spent most.
            let Some(mut counts) = counted.max_by_key(|counts| (counts.over, counts.near)) else {
                continue;
            };
            if of.is_some_and(|node| node.shadow) {
                counts.shadow = counts.over;
            }
            let metric = of.and_then(|node| node.metric.as_ref());
            let Some(name) = metric.map(|metric| &metric.name).or(tree.request_limits.as_ref())
            else {
                continue;
            };
            let by_value = metric.filter(|metric| metric.is_by_value);
            let by_value = by_value.and_then(|_| source.name(tree, index));
            let location = RuleLocation {
                set: tree.number,
                rule: metric.map(|metric| metric.number),
                of: tree.limited,
            };
            let name_by_value = by_value.as_ref();
            listener.notify(&DescriptorHits { location, name, name_by_value, counts });
        }
    }
}

impl EntrySource<'_, '_> {
    /// Returns the name of a descriptor with the values that the file requests.
    fn name(&self, tree: &DescriptorTree, index: usize) -> Option<MetricName> {
        match self {
            EntrySource::Descriptors(descriptors) => {
                tree.metric_name_by_value(descriptors.get(index)?.entries)
            }
            EntrySource::Request(request) => {
                tree.metric_name_by_value(&DescriptorEntries::from_request(request).pairs())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts hit by hit: each is near or over by the number of hits before it.
    fn one_by_one(limit: u32, hits: u64, after: u64) -> HitCounts {
        let mut counts = HitCounts { total: hits, ..HitCounts::default() };
        for before in after - hits..after {
            match before >= u64::from(limit) {
                true => counts.over += 1,
                false => counts.near += u64::from(before >= u64::from(near_limit(limit))),
            }
        }
        if counts.over == 0 {
            counts.within = hits;
        }
        counts
    }

    #[test]
    fn the_hits_of_a_request_are_counted_as_if_they_came_one_by_one() {
        for limit in 0..25 {
            for before in 0..40 {
                for hits in 0..30 {
                    let after = before + hits;
                    let found = HitCounts::in_window(limit, hits, after);
                    let expected = one_by_one(limit, hits, after);
                    assert_eq!(found, expected, "{hits} after {before} of {limit}");
                }
            }
        }
    }
}
