//! The response to Envoy: a code for each descriptor, one for all, and headers.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Span, Time, Verdict};

use super::check_plan::{CheckPlan, DescriptorPlan};
use super::planned_check::PlannedCheck;
use super::rate_limit::CountedLimit;
use super::{DescriptorTree, Metadata, RateLimitRequest, Unit};
use tollgate::{Action, MemoryStore, Verdicts};

/// The code of a response or a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request passes.
    Ok,
    /// The request is over the limit.
    OverLimit,
}

impl Code {
    /// Returns the HTTP status, as `POST /json` has it.
    ///
    /// ```
    /// use tollgate_rules::envoy::Code;
    /// assert_eq!((Code::Ok.http_status(), Code::OverLimit.http_status()), (200, 429));
    /// ```
    pub const fn http_status(self) -> u16 {
        match self {
            Code::Ok => 200,
            Code::OverLimit => 429,
        }
    }
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimitResponse {
    /// The code of the request.
    pub overall: Code,
    /// The status of each descriptor, in the order of the request.
    pub statuses: SmallVec<[DescriptorStatus; 2]>,
    /// The headers for the client, if any limit applied.
    pub headers: Option<RateLimitHeaders>,
    /// The metadata of the descriptors that pass; of equal names the first takes precedence.
    pub metadata: Option<Arc<Metadata>>,
}

/// The status of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorStatus {
    /// The code of the descriptor.
    pub code: Code,
    /// The limit that applied; of several the one that was over, or else has the least remaining.
    pub current_limit: Option<CurrentLimit>,
    /// The remaining hits: 0 if the limit is exceeded or none applies, `u32::MAX` if unlimited.
    pub limit_remaining: u32,
    /// The time until the window ends, in whole seconds.
    pub duration_until_reset: Option<Duration>,
    /// The exact time until it would pass, if it is over the limit.
    pub retry_after: Option<Duration>,
    /// Whether it is within its limit, but more than 80 % of it are spent.
    pub near_limit: bool,
    /// The limits in shadow mode that would have refused it, by name; a limit without a name has
    /// an empty one.
    pub shadow_denials: Vec<Arc<str>>,
    /// The rules that count it under a key with missing parts, with the attributes that it lacks.
    pub incomplete_keys: Vec<(Arc<str>, Vec<String>)>,
}

/// A limit as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CurrentLimit {
    /// The name, if it has one.
    pub name: Option<Arc<str>>,
    /// The number of requests in a unit.
    pub requests_per_unit: u32,
    /// The unit of time.
    pub unit: Unit,
    /// The number of units in a window; 1 by default.
    pub unit_multiplier: u32,
}

/// The headers for the client: of the last limit that was over, or else has the least remaining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitHeaders {
    /// `RateLimit-Limit`.
    pub limit: u32,
    /// `RateLimit-Remaining`.
    pub remaining: u32,
    /// `RateLimit-Reset`, in seconds.
    pub reset: u64,
}

impl RateLimitHeaders {
    /// Returns the headers under their default names.
    pub fn pairs(&self) -> [(&'static str, u64); 3] {
        [
            ("RateLimit-Limit", self.limit.into()),
            ("RateLimit-Remaining", self.remaining.into()),
            ("RateLimit-Reset", self.reset),
        ]
    }

    fn from_status(status: &DescriptorStatus) -> Option<RateLimitHeaders> {
        let limit = status.current_limit.as_ref()?.requests_per_unit;
        let reset = status.duration_until_reset.map_or(0, |reset| reset.as_secs());
        Some(RateLimitHeaders { limit, remaining: status.limit_remaining, reset })
    }
}

/// Returns the number from which on a limit is nearly spent: four fifths, rounded down.
///
/// The original computes it in single precision, so this does.
///
/// ```
/// use tollgate_rules::envoy::near_limit;
/// assert_eq!((near_limit(10), near_limit(11), near_limit(1)), (8, 8, 0));
/// ```
pub fn near_limit(limit: u32) -> u32 {
    (limit as f32 * 0.8).floor() as u32
}

impl RateLimitResponse {
    /// Creates a response from statuses of descriptors that are no quotas.
    pub(crate) fn from_statuses(statuses: SmallVec<[DescriptorStatus; 2]>) -> RateLimitResponse {
        let mut tally = ResponseTally::default();
        for (index, status) in statuses.iter().enumerate() {
            tally.count(index, status, false);
        }
        let headers = tally.shown.and_then(|index| RateLimitHeaders::from_status(&statuses[index]));
        RateLimitResponse { overall: tally.overall(), statuses, headers, metadata: None }
    }
}

impl DescriptorStatus {
    pub(super) fn without_limit(limit_remaining: u32) -> DescriptorStatus {
        DescriptorStatus {
            code: Code::Ok,
            current_limit: None,
            limit_remaining,
            duration_until_reset: None,
            retry_after: None,
            near_limit: false,
            shadow_denials: Vec::new(),
            incomplete_keys: Vec::new(),
        }
    }

    fn from_verdict(step: &PlannedCheck<'_>, verdict: &Verdict, now: Time) -> DescriptorStatus {
        let counted = step.counted.get();
        let CountedLimit { requests, unit, multiplier, .. } = *counted;
        let over = step.is_over(verdict);
        let plain = !matches!(step.action, Action::Take { .. });
        let remaining = match requests {
            0 => 0,
            _ if over && plain => 0,
            _ => u32::try_from(verdict.remaining).unwrap_or(u32::MAX),
        };
        let until_reset = match verdict.reset_after {
            // Nothing is spent, so the store has no window.
            Span::ZERO => window_left(unit, multiplier, now),
            left => left,
        };
        DescriptorStatus {
            code: if over { Code::OverLimit } else { Code::Ok },
            current_limit: Some(CurrentLimit {
                name: step.name.cloned(),
                requests_per_unit: requests,
                unit,
                unit_multiplier: multiplier,
            }),
            limit_remaining: remaining,
            duration_until_reset: Some(whole_seconds(until_reset)),
            retry_after: verdict.retry_after().filter(|_| over && requests > 0).map(Duration::from),
            near_limit: !over && requests.saturating_sub(remaining) > near_limit(requests),
            shadow_denials: Vec::new(),
            incomplete_keys: Vec::new(),
        }
    }
}

/// Returns the time until the window of the epoch that contains `now` ends.
fn window_left(unit: Unit, multiplier: u32, now: Time) -> Span {
    let length = unit.span().times(multiplier.into()).as_nanos().max(1);
    Span::from_nanos(length - now.as_nanos() % length)
}

/// Rounds up to whole seconds, as the original does by rounding the time down.
pub(super) fn whole_seconds(span: Span) -> Duration {
    Duration::from_secs(span.as_nanos().div_ceil(1_000_000_000))
}

impl CheckPlan<'_> {
    /// Returns the response, from the verdicts on all checks of all [calls](CheckPlan::calls) in order.
    ///
    /// `now` gives the end of a window in which nothing is spent.
    pub fn response(&self, verdicts: &[Verdict], now: Time) -> RateLimitResponse {
        let mut statuses = SmallVec::with_capacity(self.items.len());
        let mut tally = ResponseTally::default();
        for item in &self.items {
            let status = self.status(item, verdicts, now);
            let is_quota =
                matches!(item, DescriptorPlan::Limited { of: Some(node), .. } if node.quota);
            tally.count(statuses.len(), &status, is_quota);
            statuses.push(status);
        }
        let headers = tally.shown.and_then(|index| RateLimitHeaders::from_status(&statuses[index]));
        let metadata = self.merged_metadata(&statuses);
        RateLimitResponse { overall: tally.overall(), statuses, headers, metadata }
    }

    fn status(
        &self,
        item: &DescriptorPlan<'_>,
        verdicts: &[Verdict],
        now: Time,
    ) -> DescriptorStatus {
        let DescriptorPlan::Limited { steps, of } = item else {
            let unlimited = matches!(item, DescriptorPlan::Unlimited);
            return DescriptorStatus::without_limit(if unlimited { u32::MAX } else { 0 });
        };
        let both = self.steps.iter().zip(verdicts).take(steps.end).skip(steps.start);
        let each = both.map(|(step, verdict)| DescriptorStatus::from_verdict(step, verdict, now));
        let worst = each.reduce(|worst, next| {
            let worse = match (worst.code, next.code) {
                (_, Code::OverLimit) => true,
                (Code::OverLimit, Code::Ok) => false,
                _ => next.limit_remaining < worst.limit_remaining,
            };
            if worse { next } else { worst }
        });
        let mut status = worst.unwrap_or(DescriptorStatus::without_limit(0));
        if of.is_some_and(|node| node.shadow) {
            if status.code == Code::OverLimit {
                let named = status.current_limit.as_ref().and_then(|limit| limit.name.clone());
                status.shadow_denials.push(named.unwrap_or_default());
            }
            status.code = Code::Ok;
            status.retry_after = None;
        }
        status
    }

    fn merged_metadata(&self, statuses: &[DescriptorStatus]) -> Option<Arc<Metadata>> {
        let passed = self.items.iter().zip(statuses).filter(|(_, status)| status.code == Code::Ok);
        let mut all = passed.filter_map(|(item, _)| self.metadata(item));
        let mut merged = all.next()?.clone();
        all.for_each(|other| Arc::make_mut(&mut merged).merge(other));
        Some(merged)
    }

    /// Runs the plan on a memory store.
    pub fn decide(&self, store: &MemoryStore) -> RateLimitResponse {
        let now = store.now();
        let mut verdicts = Verdicts::new();
        for call in self.calls() {
            verdicts.extend(store.run_at(call.as_call(), now));
        }
        self.response(&verdicts, now)
    }
}

/// The descriptors so far, taken together.
#[derive(Default)]
struct ResponseTally {
    over: usize,
    quotas: usize,
    quotas_over: usize,
    /// The descriptor that the headers are about.
    shown: Option<usize>,
    least: Option<u32>,
}

impl ResponseTally {
    fn count(&mut self, index: usize, status: &DescriptorStatus, is_quota: bool) {
        let remaining = status.limit_remaining;
        // A descriptor that is over keeps its position, since nothing remains of its limit.
        if status.current_limit.is_some() && self.least.is_none_or(|least| remaining < least) {
            (self.shown, self.least) = (Some(index), Some(remaining));
        }
        let is_over = status.code == Code::OverLimit;
        match is_quota {
            true => {
                self.quotas += 1;
                self.quotas_over += usize::from(is_over);
            }
            false if is_over => {
                self.over += 1;
                (self.shown, self.least) = (Some(index), Some(0));
            }
            false => {}
        }
    }

    /// Returns the code of the request: any limit refuses; quotas do once all of them are spent.
    fn overall(&self) -> Code {
        match self.over > 0 || self.quotas > 0 && self.quotas == self.quotas_over {
            true => Code::OverLimit,
            false => Code::Ok,
        }
    }
}

impl DescriptorTree {
    /// Decides a request with a memory store.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_rules::{Source, envoy::{Code, Descriptor, Domains, RateLimitRequest}};
    ///
    /// let file = "
    /// domain: messaging
    /// descriptors:
    ///   - key: to_number
    ///     rate_limit: { unit: day, requests_per_unit: 1 }
    /// ";
    /// let domains = Domains::read([Source::new("messaging.yaml", file)])?;
    /// let (tree, store) = (domains.get("messaging").unwrap(), MemoryStore::new());
    /// let descriptors = [Descriptor::new(&[("to_number", "2061111111")])];
    /// let request = RateLimitRequest::new("messaging", &descriptors);
    /// assert_eq!(tree.decide(&store, &request).overall, Code::Ok);
    /// assert_eq!(tree.decide(&store, &request).overall, Code::OverLimit);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn decide(&self, store: &MemoryStore, request: &RateLimitRequest<'_>) -> RateLimitResponse {
        self.plan(request).decide(store)
    }
}
