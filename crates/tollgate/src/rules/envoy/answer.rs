//! What Envoy is told: a code for each descriptor, one for all, and what to put into headers.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Span, Time, Verdict};

use super::limit::Counted;
use super::plan::{Item, Plan, Step};
use super::{Metadata, RateLimitRequest, Tree, Unit};
use crate::{Action, MemoryStore, Verdicts};

/// May it pass?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It may.
    Ok,
    /// It may not.
    OverLimit,
}

impl Code {
    /// The status of an answer over HTTP, as `POST /json` gives it.
    ///
    /// ```
    /// use tollgate::rules::envoy::Code;
    /// assert_eq!((Code::Ok.http_status(), Code::OverLimit.http_status()), (200, 429));
    /// ```
    pub const fn http_status(self) -> u16 {
        match self {
            Code::Ok => 200,
            Code::OverLimit => 429,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimitAnswer {
    /// May it pass?
    pub overall: Code,
    /// How each descriptor fared, in the order of the request.
    pub statuses: SmallVec<[DescriptorStatus; 2]>,
    /// What to tell the client, if any limit applied.
    pub headers: Option<Headers>,
    /// What the descriptors that let it pass give along; the first to name something wins.
    pub metadata: Option<Arc<Metadata>>,
}

/// How a descriptor fared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorStatus {
    /// Within its limit, or not.
    pub code: Code,
    /// The limit that applied; of several the one that was over, or else has the least left.
    pub current_limit: Option<CurrentLimit>,
    /// What is left: nothing once over or where no limit applies, `u32::MAX` where unlimited.
    pub limit_remaining: u32,
    /// How long until the window ends, in whole seconds.
    pub duration_until_reset: Option<Duration>,
    /// How long until it would pass: only of what is over, and exact.
    pub retry_after: Option<Duration>,
    /// Within its limit, but more than 80 % of it are spent.
    pub near_limit: bool,
}

/// A limit, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CurrentLimit {
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// How many.
    pub requests_per_unit: u32,
    /// In what time.
    pub unit: Unit,
    /// How many units that time is; 1 unless the file says otherwise.
    pub unit_multiplier: u32,
}

/// What to tell the client: about the last limit that was over, else the one with the least left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// `RateLimit-Limit`.
    pub limit: u32,
    /// `RateLimit-Remaining`.
    pub remaining: u32,
    /// `RateLimit-Reset`, in seconds.
    pub reset: u64,
}

impl Headers {
    /// The headers, under the names they have unless configured otherwise.
    pub fn pairs(&self) -> [(&'static str, u64); 3] {
        [
            ("RateLimit-Limit", self.limit.into()),
            ("RateLimit-Remaining", self.remaining.into()),
            ("RateLimit-Reset", self.reset),
        ]
    }

    fn of(status: &DescriptorStatus) -> Option<Headers> {
        let limit = status.current_limit.as_ref()?.requests_per_unit;
        let reset = status.duration_until_reset.map_or(0, |reset| reset.as_secs());
        Some(Headers { limit, remaining: status.limit_remaining, reset })
    }
}

/// From how many on a limit counts as nearly spent: four fifths, rounded down.
///
/// The original computes it in single precision, so this does.
///
/// ```
/// use tollgate::rules::envoy::near_limit;
/// assert_eq!((near_limit(10), near_limit(11), near_limit(1)), (8, 8, 0));
/// ```
pub fn near_limit(limit: u32) -> u32 {
    (limit as f32 * 0.8).floor() as u32
}

impl RateLimitAnswer {
    /// What descriptors come to together, none of which is a quota.
    pub(crate) fn of(statuses: SmallVec<[DescriptorStatus; 2]>) -> RateLimitAnswer {
        let mut tally = Tally::default();
        for (index, status) in statuses.iter().enumerate() {
            tally.count(index, status, false);
        }
        let headers = tally.shown.and_then(|index| Headers::of(&statuses[index]));
        RateLimitAnswer { overall: tally.overall(), statuses, headers, metadata: None }
    }
}

impl DescriptorStatus {
    pub(super) fn free(limit_remaining: u32) -> DescriptorStatus {
        DescriptorStatus {
            code: Code::Ok,
            current_limit: None,
            limit_remaining,
            duration_until_reset: None,
            retry_after: None,
            near_limit: false,
        }
    }

    fn of(step: &Step<'_>, verdict: &Verdict, now: Time) -> DescriptorStatus {
        let counted = step.counted.get();
        let Counted { requests, unit, multiplier, .. } = *counted;
        // A limit of none is counted by one of one: the first hit leaves nothing of it.
        let over = !verdict.allowed || requests == 0 && verdict.remaining == 0;
        let plain = !matches!(step.action, Action::Take { .. });
        let remaining = match requests {
            0 => 0,
            _ if over && plain => 0,
            _ => u32::try_from(verdict.remaining).unwrap_or(u32::MAX),
        };
        let until_reset = match verdict.reset_after {
            // Nothing is spent, so the store has no window to speak of.
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
        }
    }
}

/// How long until the window of the epoch that contains `now` ends.
fn window_left(unit: Unit, multiplier: u32, now: Time) -> Span {
    let length = unit.span().times(multiplier.into()).as_nanos().max(1);
    Span::from_nanos(length - now.as_nanos() % length)
}

/// Rounded up: what the original gets by rounding the time down.
pub(super) fn whole_seconds(span: Span) -> Duration {
    Duration::from_secs(span.as_nanos().div_ceil(1_000_000_000))
}

impl Plan<'_> {
    /// The answer, from the verdicts on all checks of all [calls](Plan::calls), in their order.
    /// `now` says how far a window is that nothing was spent in.
    pub fn answer(&self, verdicts: &[Verdict], now: Time) -> RateLimitAnswer {
        let mut statuses = SmallVec::with_capacity(self.items.len());
        let mut tally = Tally::default();
        for item in &self.items {
            let status = self.status(item, verdicts, now);
            let is_quota = matches!(item, Item::Limited { of: Some(node), .. } if node.quota);
            tally.count(statuses.len(), &status, is_quota);
            statuses.push(status);
        }
        let headers = tally.shown.and_then(|index| Headers::of(&statuses[index]));
        let metadata = self.merged_metadata(&statuses);
        RateLimitAnswer { overall: tally.overall(), statuses, headers, metadata }
    }

    fn status(&self, item: &Item<'_>, verdicts: &[Verdict], now: Time) -> DescriptorStatus {
        let Item::Limited { steps, of } = item else {
            let unlimited = matches!(item, Item::Unlimited);
            return DescriptorStatus::free(if unlimited { u32::MAX } else { 0 });
        };
        let both = self.steps.iter().zip(verdicts).take(steps.end).skip(steps.start);
        let each = both.map(|(step, verdict)| DescriptorStatus::of(step, verdict, now));
        let worst = each.reduce(|worst, next| {
            let worse = match (worst.code, next.code) {
                (_, Code::OverLimit) => true,
                (Code::OverLimit, Code::Ok) => false,
                _ => next.limit_remaining < worst.limit_remaining,
            };
            if worse { next } else { worst }
        });
        let mut status = worst.unwrap_or(DescriptorStatus::free(0));
        if of.is_some_and(|node| node.shadow) {
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

    /// Asks a memory store, and answers.
    pub fn decide(&self, store: &MemoryStore) -> RateLimitAnswer {
        let now = store.now();
        let mut verdicts = Verdicts::new();
        for call in self.calls() {
            verdicts.extend(store.run_at(call.as_call(), now));
        }
        self.answer(&verdicts, now)
    }
}

/// The descriptors seen so far, taken together.
#[derive(Default)]
struct Tally {
    over: usize,
    quotas: usize,
    quotas_over: usize,
    /// The one headers are about, and what is left of its limit.
    shown: Option<usize>,
    least: Option<u32>,
}

impl Tally {
    fn count(&mut self, index: usize, status: &DescriptorStatus, is_quota: bool) {
        let remaining = status.limit_remaining;
        // What has nothing left because it was over keeps its place.
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

    /// Any limit that is no quota refuses; quotas do once all of them are spent.
    fn overall(&self) -> Code {
        match self.over > 0 || self.quotas > 0 && self.quotas == self.quotas_over {
            true => Code::OverLimit,
            false => Code::Ok,
        }
    }
}

impl Tree {
    /// Answers a request, counting in a memory store.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate::rules::{Source, envoy::{Code, Descriptor, Domains, RateLimitRequest}};
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
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn decide(&self, store: &MemoryStore, request: &RateLimitRequest<'_>) -> RateLimitAnswer {
        self.plan(request).decide(store)
    }
}
