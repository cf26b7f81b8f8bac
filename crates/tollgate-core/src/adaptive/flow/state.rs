//! The state of the flow controller.

use super::super::Sample;
use crate::{Span, Time};

/// Longer latencies count as this one, so that sums of them stay small.
const MAX_LATENCY: Span = Span::from_secs(3600);
/// More requests in flight count as this many, so that sums of them stay small.
const MAX_IN_FLIGHT: u64 = 1 << 40;
/// Up to this limit, requests that end together are not counted as concurrent, or it could not grow.
const MAX_UNADJUSTED_LIMIT: u64 = 4;
/// The most requests that one judgement waits for, however much they differ.
const MAX_REQUIRED_SAMPLES: u128 = 800;
/// A latency beyond this many times the unloaded one means that the service stood still.
const STALL_FACTOR: u64 = 16;
/// The longest wait for the effect of a step.
pub(super) const MAX_SETTLE_TIME: Span = Span::from_secs(2);

/// The state of a [`Flow`](super::Flow): the limit, the latency without a queue, and recent samples.
///
/// ```
/// use tollgate_core::adaptive::Flow;
/// assert_eq!(Flow::new(20, 200)?.start().limit(), 20);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    pub(super) limit: u64,
    /// Latency without a queue; zero before anything is known.
    pub(super) base: Span,
    /// Drops that the limit does not cause, in thousandths.
    pub(super) baseline_drops: u64,
    /// The number of requests whose mean is reliable: more, the more they differ.
    pub(super) required_samples: u64,
    /// The mean latency of the last period.
    pub(super) latency: Span,
    /// Whether the limit doubles at each step, until the first queue.
    pub(super) slow_start: bool,
    /// Steps down in a row that did not lower the latency.
    pub(super) ineffective_steps: u8,
    pub(super) phase: FlowPhase,
    /// Whether the requests that began under a higher limit have finished.
    pub(super) drained: bool,
    pub(super) batch: SampleBatch,
    /// The time of the last change of the limit.
    pub(super) period_start: Time,
    /// The time from which samples show the effect of that change.
    pub(super) settled_at: Time,
    pub(super) last_sample_at: Time,
    /// The end of the first of several requests that end together.
    burst_since: Time,
    /// The most in flight since then.
    burst_peak: u64,
    pub(super) cautious_until: Time,
    /// The times of the last and of the next probe of the service without a queue.
    pub(super) last_probe_at: Time,
    pub(super) next_probe_at: Time,
}

/// The phase of the flow controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowPhase {
    Steering,
    /// Measures the service at a lower limit for a moment; `before` is the limit to return to.
    Probing {
        before: u64,
    },
}

/// Requests that are judged together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SampleBatch {
    pub(super) ok: u64,
    pub(super) dropped: u64,
    /// The sum of the latencies.
    rtts_ns: u128,
    /// The sum of their squares.
    squares_ns: u128,
    /// The sum of the requests in flight at the end of each answered one.
    pub(super) in_flight: u128,
    /// The most requests in flight.
    pub(super) peak: u64,
}

impl SampleBatch {
    pub(super) fn add(&mut self, sample: &Sample, base: Span) {
        let in_flight = sample.in_flight.min(MAX_IN_FLIGHT);
        self.peak = self.peak.max(in_flight);
        if sample.dropped {
            self.dropped += 1;
            return;
        }
        self.ok += 1;
        let rtt_ns = u128::from(sample.rtt.min(MAX_LATENCY).as_nanos());
        self.rtts_ns += rtt_ns;
        // A stall of the service says nothing about how requests differ.
        let most = if base.is_zero() { sample.rtt } else { base.times(STALL_FACTOR) };
        self.squares_ns += rtt_ns.min(u128::from(most.as_nanos())).pow(2);
        self.in_flight += u128::from(in_flight);
    }

    pub(super) fn all(&self) -> u64 {
        self.ok + self.dropped
    }

    /// Returns whether at least four fifths of the limit were in use throughout.
    pub(super) fn fills(&self, limit: u64) -> bool {
        self.in_flight * 5 >= u128::from(limit) * u128::from(self.ok) * 4
    }

    /// Returns whether half the limit was in use on average; below that it cannot be the cause.
    pub(super) fn presses(&self, limit: u64) -> bool {
        self.ok > 0 && self.in_flight * 2 >= u128::from(limit) * u128::from(self.ok)
    }

    /// Returns how many requests that differ as much as these have a mean that is right to a sixth.
    ///
    /// The number is their variance over the square of their mean, over the square of a sixth.
    pub(super) fn required_samples(&self) -> u64 {
        let mean = self.rtts_ns.saturating_mul(self.rtts_ns);
        let variance = self.squares_ns.saturating_mul(u128::from(self.ok)).saturating_sub(mean);
        let required_samples = variance.saturating_mul(36).checked_div(mean).unwrap_or(0);
        required_samples.min(MAX_REQUIRED_SAMPLES) as u64
    }

    /// Returns the mean latency of the answered requests.
    pub(super) fn latency(&self) -> Option<Span> {
        let mean = self.rtts_ns.checked_div(u128::from(self.ok))?;
        Some(Span::from_nanos(mean.max(1) as u64))
    }
}

impl FlowState {
    pub(super) fn new(limit: u64) -> FlowState {
        FlowState {
            limit,
            base: Span::ZERO,
            baseline_drops: 0,
            required_samples: 0,
            latency: Span::ZERO,
            slow_start: true,
            ineffective_steps: 0,
            phase: FlowPhase::Steering,
            drained: false,
            batch: SampleBatch::default(),
            period_start: Time::EPOCH,
            settled_at: Time::EPOCH,
            last_sample_at: Time::EPOCH,
            burst_since: Time::EPOCH,
            burst_peak: 0,
            cautious_until: Time::EPOCH,
            last_probe_at: Time::EPOCH,
            next_probe_at: Time::EPOCH,
        }
    }

    /// Returns the current limit.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the latency without a queue, as far as known.
    pub fn unloaded(&self) -> Option<Span> {
        Some(self.base).filter(|base| !base.is_zero())
    }

    /// Returns how many requests were in flight with one that ends with `in_flight` of them.
    ///
    /// When requests end together, as from a service that works in batches, the last one would seem
    /// to have been alone. The peak of such a group counts for all of it.
    pub(super) fn concurrent_requests(&mut self, now: Time, in_flight: u64) -> u64 {
        let moment = Span::from_nanos(self.base.as_nanos() / 16);
        if now.since(self.burst_since) > moment {
            (self.burst_since, self.burst_peak) = (now, 0);
        }
        self.burst_peak = self.burst_peak.max(in_flight);
        if self.limit > MAX_UNADJUSTED_LIMIT { self.burst_peak } else { in_flight }
    }

    /// Starts a new period, once requests that began under another limit have finished.
    pub(super) fn start_period(&mut self, now: Time) {
        (self.batch, self.drained) = (SampleBatch::default(), false);
        (self.period_start, self.settled_at) = (now, now + self.settle_time());
    }

    /// Returns how long the effect of a step takes to show in the samples.
    pub(super) fn settle_time(&self) -> Span {
        self.latency.min(MAX_SETTLE_TIME)
    }
}
