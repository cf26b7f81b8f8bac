//! What the flow controller remembers.

use super::super::Sample;
use crate::{Span, Time};

/// The longest latency that is told from longer ones: sums of them stay small.
const LONGEST: Span = Span::from_secs(3600);
/// The most in flight that are told from more.
const MOST: u64 = 1 << 40;
/// Of so few the limit grows beyond, even if they always end together.
const FEW: u64 = 4;
/// The most requests that are ever waited for, however much they differ.
const MOST_TELLING: u128 = 800;
/// Longer than so many times what is usual takes nobody by itself.
const STANDS_STILL: u64 = 16;
/// The longest a step's effect is waited for.
pub(super) const SLOWEST: Span = Span::from_secs(2);

/// What a [`Flow`](super::Flow) remembers: the limit, what the service is like without a queue,
/// and what was seen since the last step.
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
    /// Drops that are not the limit's doing, in thousandths.
    pub(super) drops_anyway: u64,
    /// How many requests have a mean that tells something: more, the more they differ.
    pub(super) telling: u64,
    /// What latency was last.
    pub(super) latency: Span,
    /// Doubles at each step until the first queue.
    pub(super) starting: bool,
    /// Steps down in a row.
    pub(super) in_vain: u8,
    pub(super) part: Part,
    /// Whether those who began under a higher limit are through.
    pub(super) drained: bool,
    pub(super) seen: Seen,
    /// Since when the limit is what it is, and from when on its effect is seen.
    pub(super) began: Time,
    pub(super) settles: Time,
    pub(super) heard_at: Time,
    /// When the first of those ended that end together, and how many were in flight by then.
    together_since: Time,
    together: u64,
    pub(super) careful_until: Time,
    /// When it looked at the service without a queue, and when it will again.
    pub(super) looked_at: Time,
    pub(super) look_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Steering,
    /// At a lower limit for a moment.
    Looking {
        before: u64,
    },
}

/// Requests that are judged together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) ok: u64,
    pub(super) dropped: u64,
    rtts_ns: u128,
    squares_ns: u128,
    /// The sum of what was in flight beside each that was answered.
    pub(super) in_flight: u128,
    pub(super) most: u64,
}

impl Seen {
    pub(super) fn add(&mut self, sample: &Sample, base: Span) {
        let in_flight = sample.in_flight.min(MOST);
        self.most = self.most.max(in_flight);
        if sample.dropped {
            self.dropped += 1;
            return;
        }
        self.ok += 1;
        let rtt_ns = u128::from(sample.rtt.min(LONGEST).as_nanos());
        self.rtts_ns += rtt_ns;
        // A service that stands still says nothing about how requests differ.
        let most = if base.is_zero() { sample.rtt } else { base.times(STANDS_STILL) };
        self.squares_ns += rtt_ns.min(u128::from(most.as_nanos())).pow(2);
        self.in_flight += u128::from(in_flight);
    }

    pub(super) fn all(&self) -> u64 {
        self.ok + self.dropped
    }

    /// Whether the limit was in use throughout, four fifths of it at least.
    pub(super) fn fills(&self, limit: u64) -> bool {
        self.in_flight * 5 >= u128::from(limit) * u128::from(self.ok) * 4
    }

    /// Whether half the limit was in use, on average: of fewer it could not be the cause.
    pub(super) fn presses(&self, limit: u64) -> bool {
        self.ok > 0 && self.in_flight * 2 >= u128::from(limit) * u128::from(self.ok)
    }

    /// How many requests that differ as much as these have a mean that is right to a sixth, as
    /// chance goes: their variance over the square of their mean, over the square of a sixth.
    pub(super) fn telling(&self) -> u64 {
        let mean = self.rtts_ns.saturating_mul(self.rtts_ns);
        let variance = self.squares_ns.saturating_mul(u128::from(self.ok)).saturating_sub(mean);
        let telling = variance.saturating_mul(36).checked_div(mean).unwrap_or(0);
        telling.min(MOST_TELLING) as u64
    }

    /// The mean of those that were answered.
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
            drops_anyway: 0,
            telling: 0,
            latency: Span::ZERO,
            starting: true,
            in_vain: 0,
            part: Part::Steering,
            drained: false,
            seen: Seen::default(),
            began: Time::EPOCH,
            settles: Time::EPOCH,
            heard_at: Time::EPOCH,
            together_since: Time::EPOCH,
            together: 0,
            careful_until: Time::EPOCH,
            looked_at: Time::EPOCH,
            look_at: Time::EPOCH,
        }
    }

    /// The limit now.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Latency without a queue, as far as known.
    pub fn unloaded(&self) -> Option<Span> {
        Some(self.base).filter(|base| !base.is_zero())
    }

    /// How many were in flight while a request was, given how many are at its end. Of those that end
    /// together, as from a service that works in batches, the last would seem to have been alone.
    pub(super) fn beside(&mut self, now: Time, in_flight: u64) -> u64 {
        let moment = Span::from_nanos(self.base.as_nanos() / 16);
        if now.since(self.together_since) > moment {
            (self.together_since, self.together) = (now, 0);
        }
        self.together = self.together.max(in_flight);
        if self.limit > FEW { self.together } else { in_flight }
    }

    /// Sees afresh, once those that began under another limit are through.
    pub(super) fn begin(&mut self, now: Time) {
        (self.seen, self.drained) = (Seen::default(), false);
        (self.began, self.settles) = (now, now + self.pace());
    }

    /// How long the effect of a step takes to be seen.
    pub(super) fn pace(&self) -> Span {
        self.latency.min(SLOWEST)
    }
}
