//! The flow controller, tollgate's default: throughput times the latency without a queue.

use super::{Bounds, Sample};
use crate::{InvalidLimit, MAX_AMOUNT, Span, Time};

mod state;

pub use state::FlowState;
use state::{FlowPhase, MAX_SETTLE_TIME, SampleBatch};

/// The limit in percent of what a service without a queue would have in flight.
///
/// Half as much again keeps the service busy although requests differ, and makes no queue that
/// clients notice.
const TOLERANCE_PCT: u64 = 150;
/// Permits on top of the tolerance, so that small limits can grow too.
const EXTRA_PERMITS: u64 = 1;
/// The fewest requests that are judged together, unless they are rare.
const MIN_SAMPLES: u64 = 10;
/// The fewest requests that a probe is based on.
const MIN_PROBE_SAMPLES: u64 = 20;
/// The number of similar requests after which an earlier variance is forgotten. Long requests may be
/// rare, so it is large.
const VARIANCE_MEMORY: u64 = 512;
/// The fewest requests that are judged together when they are rare.
const MIN_RARE_SAMPLES: u64 = 3;
/// The longest wait for more requests when they are rare.
const MAX_SAMPLE_WAIT: Span = Span::from_secs(2);
/// The shortest period that is judged: a busy service answers ten requests within a moment.
const MIN_PERIOD: Span = Span::from_millis(150);
/// A pause this long makes the samples before it worthless.
const STALE_AFTER: Span = Span::from_secs(10);
/// The time under load after which the unloaded latency is probed again.
const PROBE_INTERVAL: Span = Span::from_secs(4);
/// The time after which a doubtful unloaded latency is probed again.
const DOUBT_INTERVAL: Span = Span::from_secs(1);
/// Probes take at most one part in this many of the time.
const PROBE_TIME_SHARE: u64 = 16;
/// Lowering the limit this often without an effect on latency means that it was not the cause.
const MAX_INEFFECTIVE_STEPS: u8 = 2;
/// Drops above the baseline, in thousandths, that are attributed to the limit.
const OVERLOAD_DROPS: u64 = 150;
/// The highest baseline of drops, in thousandths.
const MAX_BASELINE_DROPS: u64 = 500;
/// A service that drops this many, in thousandths, is down.
const OUTAGE_DROPS: u64 = 900;
/// The time after drops during which the limit grows slowly.
const CAUTION: Span = Span::from_secs(2);

/// Finds the fewest requests in flight that keep a service fully busy.
///
/// By Little's law, `N` requests in flight that take `r` each are a throughput of `N/r`. Without a
/// queue each request would take `b`, and the same throughput would need only `N·b/r` in flight. The
/// limit goes to half as much again, plus one:
///
/// | samples | limit |
/// | --- | --- |
/// | latency ≤ 1.5 × unloaded, the limit reached | half the way to `1.5·N·b/r + 1`; doubles at the start |
/// | latency above, half the limit in use | `1.5·N·b/r + 1`, at most halved |
/// | nothing but drops | half |
/// | more drops than the baseline | less by half their share, then slow growth for 2 s |
/// | anything else | unchanged |
///
/// After each step the controller waits for one latency, so that the next samples show the effect.
/// Then it waits for as many requests as their mean needs to be right to a sixth: ten if they are
/// alike, hundreds if one in twenty takes forty times as long, but never for more than two seconds.
///
/// Everything depends on `b`, and under load `b` cannot be measured: a queue that never empties looks
/// like a slow service. The controller therefore *probes*: every four seconds under load, and as soon
/// as lowering the limit twice did not help, it admits a third as many requests for a moment (at most
/// 6 % of the time, if not in doubt). The limit does not cause the latency and the drops of a probe.
/// If `b` was too high by a factor `f`, a probe leaves at most `f/2` of it: errors shrink, and the
/// limit cannot creep.
///
/// ```
/// use tollgate_core::adaptive::{Flow, Sample};
/// use tollgate_core::{Span, Time};
///
/// let flow = Flow::new(1, 500)?;
/// let mut state = flow.start();
/// // A service that serves ten at once in 10 ms: more in flight only take longer.
/// for i in 0..10_000 {
///     let in_flight = state.limit();
///     let rtt = Span::from_micros(1_000 * in_flight.max(10));
///     flow.update(&mut state, Time::from_nanos(i * 1_000_000), Sample::ok(rtt, in_flight));
/// }
/// assert!((10..=20).contains(&state.limit()), "{state:?}");
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    bounds: Bounds,
    initial: u64,
}

impl Flow {
    /// Creates a controller of a limit between `min` and `max`, both included; starts at `min`.
    pub fn new(min: u64, max: u64) -> Result<Flow, InvalidLimit> {
        Ok(Flow { bounds: Bounds::new(min, max)?, initial: min })
    }

    /// Sets the limit to start with, within the bounds; `min` by default.
    pub fn initial(self, limit: u64) -> Flow {
        Flow { initial: self.bounds.clamp(limit), ..self }
    }

    /// Returns the state before the first request.
    pub fn start(&self) -> FlowState {
        FlowState::new(self.initial)
    }

    /// Takes in a request that finished at `now`.
    pub fn update(&self, state: &mut FlowState, now: Time, sample: Sample) {
        if now.since(state.last_sample_at) > STALE_AFTER {
            state.start_period(now);
            state.next_probe_at = state.next_probe_at.max(now + DOUBT_INTERVAL);
        }
        state.last_sample_at = now;
        let in_flight = state.concurrent_requests(now, sample.in_flight);
        let probing = match state.phase {
            FlowPhase::Probing { before } if !state.drained => {
                return self.drain(state, now, sample.in_flight, before);
            }
            phase => phase != FlowPhase::Steering,
        };
        if now < state.settled_at {
            return; // The request began under another limit.
        }
        state.batch.add(&Sample { in_flight, ..sample }, state.base);
        let (batch, measured) = (state.batch, now.since(state.settled_at));
        let (required, min_period) = match probing {
            true => (MIN_PROBE_SAMPLES, Span::ZERO),
            false => {
                (state.limit.saturating_mul(2).clamp(MIN_RARE_SAMPLES, MIN_SAMPLES), MIN_PERIOD)
            }
        };
        // A service that drops most requests is judged early, however much latencies differ.
        let required =
            if batch.dropped > batch.ok { required } else { required.max(state.required_samples) };
        if batch.all() >= required && measured >= min_period.max(state.base.min(MAX_SETTLE_TIME))
            || batch.all() >= MIN_RARE_SAMPLES && measured >= MAX_SAMPLE_WAIT
        {
            self.judge(state, now, batch);
        }
    }

    /// Waits until the requests that began under the higher limit have finished.
    ///
    /// A probe starts then, or is given up: streams stay in flight long after their first answer.
    fn drain(&self, state: &mut FlowState, now: Time, in_flight: u64, before: u64) {
        if in_flight <= state.limit {
            (state.drained, state.settled_at) = (true, now + state.settle_time());
        } else if now.since(state.period_start) > DOUBT_INTERVAL.max(state.settle_time().times(4)) {
            (state.limit, state.phase) = (before, FlowPhase::Steering);
            state.next_probe_at = now + PROBE_INTERVAL;
            state.start_period(now);
        }
    }

    /// Ends a period: updates the estimates, and steers the limit or ends a probe.
    fn judge(&self, state: &mut FlowState, now: Time, batch: SampleBatch) {
        let drops = batch.dropped * 1000 / batch.all();
        state.required_samples = batch
            .required_samples()
            .max(state.required_samples - decayed(state.required_samples, batch.ok));
        if let Some(rtt) = batch.latency() {
            state.latency = rtt;
            if state.base.is_zero() {
                state.base = rtt;
            }
        }
        match state.phase {
            FlowPhase::Steering => {
                self.steer(state, now, batch, drops);
                self.probe_if_due(state, now, batch);
            }
            FlowPhase::Probing { before } => self.finish_probe(state, now, batch, before),
        }
        state.start_period(now);
    }

    /// Moves the limit by the samples of a period.
    fn steer(&self, state: &mut FlowState, now: Time, batch: SampleBatch, drops: u64) {
        let limit = state.limit;
        let rtt = state.latency;
        if drops < state.baseline_drops {
            state.baseline_drops -= (state.baseline_drops - drops).div_ceil(8);
        }
        if drops >= OUTAGE_DROPS {
            // The service must not come back to more load than it can bear.
            state.limit = self.bounds.clamp(limit / 2);
            (state.slow_start, state.ineffective_steps) = (state.limit == self.bounds.min, 0);
            return;
        }
        if batch.peak.saturating_mul(3) < limit {
            // With so few in flight the limit is not the cause: this is the service's own latency.
            state.base = quarter_way(state.base, rtt);
            state.baseline_drops = drops.min(MAX_BASELINE_DROPS);
            state.ineffective_steps = 0;
            return;
        }
        if rtt.as_nanos() < pct(state.base.as_nanos(), 75) {
            // A smaller difference may be chance, and slow requests may not have ended yet.
            state.base = quarter_way(state.base, rtt);
            state.next_probe_at =
                state.next_probe_at.min((state.last_probe_at + DOUBT_INTERVAL).max(now));
        }
        let slow = rtt.as_nanos() > pct(state.base.as_nanos(), TOLERANCE_PCT);
        let target = self.target(state, batch);
        let excess = drops.saturating_sub(state.baseline_drops);
        let mut lowers = false;
        if excess > OVERLOAD_DROPS {
            let less = (u128::from(limit) * u128::from(excess) / 2000) as u64;
            state.limit = self.bounds.clamp(limit - less.clamp(1, limit));
            state.cautious_until = now + CAUTION;
            state.slow_start = state.limit == self.bounds.min;
            lowers = true;
        } else if slow && batch.peak.saturating_mul(2) >= limit {
            state.limit = self.bounds.clamp(target.clamp(limit / 2, limit));
            state.slow_start = false;
            lowers = target < pct(limit, 90) && (state.limit < limit || target < pct(limit, 75));
        } else if !slow && batch.peak >= pct(limit, 90) {
            let more = match (state.slow_start, now < state.cautious_until) {
                // Two thirds of the target are in flight already; a queue that forms damps growth.
                (true, _) if batch.fills(limit) => pct(target + 2, 133).clamp(limit, limit * 2),
                (_, true) => limit + limit / 16 + 1,
                (..) => limit + target.saturating_sub(limit).div_ceil(2),
            };
            state.limit = self.bounds.clamp(more);
        }
        state.ineffective_steps =
            if lowers { state.ineffective_steps.saturating_add(1) } else { 0 };
    }

    /// Returns the limit that the samples suggest: `1.5 · N·b/r + 1`.
    fn target(&self, state: &FlowState, batch: SampleBatch) -> u64 {
        let flow = batch.in_flight * u128::from(state.base.as_nanos());
        let over = u128::from(state.latency.as_nanos().max(1)) * u128::from(batch.ok.max(1));
        let target = (flow * u128::from(TOLERANCE_PCT) + over * 50) / (over * 100);
        u64::try_from(target).unwrap_or(u64::MAX).saturating_add(EXTRA_PERMITS).min(MAX_AMOUNT)
    }

    /// Starts a probe of the service without a queue, if one is due.
    fn probe_if_due(&self, state: &mut FlowState, now: Time, batch: SampleBatch) {
        let in_doubt = state.ineffective_steps >= MAX_INEFFECTIVE_STEPS
            && now >= state.last_probe_at + DOUBT_INTERVAL;
        if in_doubt || batch.presses(state.limit) && now >= state.next_probe_at {
            let before = state.limit;
            let third = self.target(state, batch).div_ceil(3).max(before / 4);
            state.limit = self.bounds.clamp(third.min(before));
            state.phase = FlowPhase::Probing { before };
        }
    }

    /// Takes latency and drops of a probe as the new baseline, and restores the limit.
    fn finish_probe(&self, state: &mut FlowState, now: Time, batch: SampleBatch, before: u64) {
        let mut quicker = false;
        if let Some(rtt) = batch.latency() {
            let (was, is) = (state.base.as_nanos(), rtt.as_nanos());
            state.slow_start |= is > pct(was, 150);
            // One probe of few requests is a guess; several are not.
            quicker = is < pct(was, 75);
            let alike = is >= pct(was, 50) && is <= pct(was, 150);
            state.base = if alike { quarter_way(quarter_way(state.base, rtt), rtt) } else { rtt };
        }
        state.baseline_drops = (batch.dropped * 1000 / batch.all()).min(MAX_BASELINE_DROPS);
        state.limit = before;
        state.phase = FlowPhase::Steering;
        state.ineffective_steps = 0;
        let took = now.since(state.period_start);
        state.last_probe_at = now;
        let next = if quicker { DOUBT_INTERVAL } else { PROBE_INTERVAL };
        state.next_probe_at = now + next.max(took.times(PROBE_TIME_SHARE));
    }
}

/// Returns the span a quarter of the way from `known` to `measured`.
fn quarter_way(known: Span, measured: Span) -> Span {
    let (known, measured) = (known.as_nanos(), measured.as_nanos());
    Span::from_nanos(known - known / 4 + measured / 4)
}

/// Returns how much of `known` is forgotten after `requests` requests.
fn decayed(known: u64, requests: u64) -> u64 {
    known * requests.min(VARIANCE_MEMORY) / VARIANCE_MEMORY
}

/// Returns `pct` percent of `of`.
fn pct(of: u64, pct: u64) -> u64 {
    of.saturating_mul(pct) / 100
}

#[cfg(test)]
mod tests;
