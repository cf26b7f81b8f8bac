//! The flow controller, our default: what flows, times how long it takes without a queue.

use super::{Bounds, Sample};
use crate::{InvalidLimit, MAX_AMOUNT, Span, Time};

mod state;

pub use state::FlowState;
use state::{Part, SLOWEST, Seen};

/// Half as much again as a queueless service could have in flight: enough to keep it busy through
/// the unevenness of requests, too little for a queue that anybody feels.
const TOLERANCE_PCT: u64 = 150;
/// What may wait beside that, so that small limits can be felt out too.
const QUEUE: u64 = 1;
/// The fewest requests that are judged together, unless they are rare.
const ENOUGH: u64 = 10;
/// The fewest that a look at a service is based on.
const SURE: u64 = 20;
/// How uneven requests are is forgotten after so many that are less so: the long ones may be rare.
const MEMORY: u64 = 512;
/// The fewest of rare ones, and how long they are waited for.
const FEW: u64 = 3;
const RARE: Span = Span::from_secs(2);
/// The least time requests are judged over: a busy service would answer ten within a moment.
const LEAST: Span = Span::from_millis(150);
/// A pause this long makes what was seen before it worthless.
const STALE: Span = Span::from_secs(10);
/// How long a baseline is believed under load, and how soon a doubted one is looked at again.
const BELIEVED: Span = Span::from_secs(4);
const DOUBTED: Span = Span::from_secs(1);
/// At most one part in so many of the time goes into looking.
const LOOKS: u64 = 16;
/// Lowering the limit so often without an effect on latency means that it was not the cause.
const IN_VAIN: u8 = 2;
/// Drops above those that happen anyway, in thousandths, that are put down to the limit.
const DROPS: u64 = 150;
/// The most drops, in thousandths, that are taken for those that happen anyway.
const MOST_ANYWAY: u64 = 500;
/// A service that drops so many, in thousandths, is down.
const DOWN: u64 = 900;
/// How long growth is careful after drops.
const CAREFUL: Span = Span::from_secs(2);

/// Finds the fewest requests in flight that keep a service fully busy.
///
/// By Little's law `N` requests in flight that take `r` each are a flow of `N/r`. Were there no
/// queue, each would take `b`, and the same flow would need only `N·b/r` in flight. The limit goes
/// to half as much again, and one more:
///
/// | what was seen | limit |
/// | --- | --- |
/// | latency ≤ 1.5 × unloaded, the limit reached | half the way to `1.5·N·b/r + 1`; twice itself at the start |
/// | latency above, half the limit in use | `1.5·N·b/r + 1`, at most halved |
/// | nothing but drops | half |
/// | more drops than happen anyway | less by half their share, then grows carefully for 2 s |
/// | anything else | unchanged |
///
/// After each step it waits for one latency, so that what it sees next is the effect, and then for
/// so many requests that their mean is right to a sixth: ten if they are alike, hundreds if one in
/// twenty takes forty times as long, but never for more than two seconds.
///
/// Everything hangs on `b`, and under load `b` cannot be seen: a queue that never empties looks
/// like a slow service. So it *looks*: every four seconds under load, and as soon as lowering the
/// limit twice did not help, it lets a third as many in for a moment (at most 6 % of the time, if not in doubt).
/// What latency and drops are then is not the limit's doing. If `b` was too high by a factor `f`,
/// a look leaves at most `f/2` of it: errors shrink, and the limit cannot creep.
///
/// ```
/// use tollgate_core::adaptive::{Flow, Sample};
/// use tollgate_core::{Span, Time};
///
/// let flow = Flow::new(1, 500)?;
/// let mut state = flow.start();
/// // A service with ten places, 10 ms each: more in flight only take longer.
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
    /// A limit between `min` and `max`, both included; starts at `min`.
    pub fn new(min: u64, max: u64) -> Result<Flow, InvalidLimit> {
        Ok(Flow { bounds: Bounds::new(min, max)?, initial: min })
    }

    /// Start here instead, as far as the bounds allow.
    pub fn initial(self, limit: u64) -> Flow {
        Flow { initial: self.bounds.clamp(limit), ..self }
    }

    /// The state before the first request.
    pub fn start(&self) -> FlowState {
        FlowState::new(self.initial)
    }

    /// Takes in a request that finished `now`.
    pub fn update(&self, state: &mut FlowState, now: Time, sample: Sample) {
        if now.since(state.heard_at) > STALE {
            state.begin(now);
            state.look_at = state.look_at.max(now + DOUBTED);
        }
        state.heard_at = now;
        let in_flight = state.beside(now, sample.in_flight);
        let looks = match state.part {
            Part::Looking { before } if !state.drained => {
                return self.drain(state, now, sample.in_flight, before);
            }
            part => part != Part::Steering,
        };
        if now < state.settles {
            return; // It began under another limit.
        }
        state.seen.add(&Sample { in_flight, ..sample }, state.base);
        let (seen, measured) = (state.seen, now.since(state.settles));
        let (enough, least) = match looks {
            true => (SURE, Span::ZERO),
            false => (state.limit.saturating_mul(2).clamp(FEW, ENOUGH), LEAST),
        };
        // However much latencies differ: a service that drops most is heard at once.
        let enough = if seen.dropped > seen.ok { enough } else { enough.max(state.telling) };
        if seen.all() >= enough && measured >= least.max(state.base.min(SLOWEST))
            || seen.all() >= FEW && measured >= RARE
        {
            self.judge(state, now, seen);
        }
    }

    /// A look begins when those who began under the higher limit are through. Some never are:
    /// streams keep their places long after they said what they had to say.
    fn drain(&self, state: &mut FlowState, now: Time, in_flight: u64, before: u64) {
        if in_flight <= state.limit {
            (state.drained, state.settles) = (true, now + state.pace());
        } else if now.since(state.began) > DOUBTED.max(state.pace().times(4)) {
            (state.limit, state.part) = (before, Part::Steering);
            state.look_at = now + BELIEVED;
            state.begin(now);
        }
    }

    fn judge(&self, state: &mut FlowState, now: Time, seen: Seen) {
        let drops = seen.dropped * 1000 / seen.all();
        state.telling = seen.telling().max(state.telling - forgotten(state.telling, seen.ok));
        if let Some(rtt) = seen.latency() {
            state.latency = rtt;
            if state.base.is_zero() {
                state.base = rtt;
            }
        }
        match state.part {
            Part::Steering => {
                self.steer(state, now, seen, drops);
                self.look_if_due(state, now, seen);
            }
            Part::Looking { before } => self.looked(state, now, seen, before),
        }
        state.begin(now);
    }

    fn steer(&self, state: &mut FlowState, now: Time, seen: Seen, drops: u64) {
        let limit = state.limit;
        let rtt = state.latency;
        if drops < state.drops_anyway {
            state.drops_anyway -= (state.drops_anyway - drops).div_ceil(8);
        }
        if drops >= DOWN {
            // It must not return to more than it can bear.
            state.limit = self.bounds.clamp(limit / 2);
            (state.starting, state.in_vain) = (state.limit == self.bounds.min, 0);
            return;
        }
        if seen.most.saturating_mul(3) < limit {
            // So few are not the limit's doing: this is how the service is.
            state.base = closer(state.base, rtt);
            state.drops_anyway = drops.min(MOST_ANYWAY);
            state.in_vain = 0;
            return;
        }
        if rtt.as_nanos() < pct(state.base.as_nanos(), 75) {
            // By a little it would be chance; and those that take long may not have ended yet.
            state.base = closer(state.base, rtt);
            state.look_at = state.look_at.min((state.looked_at + DOUBTED).max(now));
        }
        let slow = rtt.as_nanos() > pct(state.base.as_nanos(), TOLERANCE_PCT);
        let target = self.target(state, seen);
        let excess = drops.saturating_sub(state.drops_anyway);
        let mut lowers = false;
        if excess > DROPS {
            let less = (u128::from(limit) * u128::from(excess) / 2000) as u64;
            state.limit = self.bounds.clamp(limit - less.clamp(1, limit));
            state.careful_until = now + CAREFUL;
            state.starting = state.limit == self.bounds.min;
            lowers = true;
        } else if slow && seen.most.saturating_mul(2) >= limit {
            state.limit = self.bounds.clamp(target.clamp(limit / 2, limit));
            state.starting = false;
            lowers = target < pct(limit, 90) && (state.limit < limit || target < pct(limit, 75));
        } else if !slow && seen.most >= pct(limit, 90) {
            let more = match (state.starting, now < state.careful_until) {
                // Two thirds of the target flow already; a queue that begins to form damps it.
                (true, _) if seen.fills(limit) => pct(target + 2, 133).clamp(limit, limit * 2),
                (_, true) => limit + limit / 16 + 1,
                (..) => limit + target.saturating_sub(limit).div_ceil(2),
            };
            state.limit = self.bounds.clamp(more);
        }
        state.in_vain = if lowers { state.in_vain.saturating_add(1) } else { 0 };
    }

    /// `1.5 · N·b/r + 1`.
    fn target(&self, state: &FlowState, seen: Seen) -> u64 {
        let flow = seen.in_flight * u128::from(state.base.as_nanos());
        let over = u128::from(state.latency.as_nanos().max(1)) * u128::from(seen.ok.max(1));
        let target = (flow * u128::from(TOLERANCE_PCT) + over * 50) / (over * 100);
        u64::try_from(target).unwrap_or(u64::MAX).saturating_add(QUEUE).min(MAX_AMOUNT)
    }

    /// Begins to look at the service without a queue, if it is time to.
    fn look_if_due(&self, state: &mut FlowState, now: Time, seen: Seen) {
        let doubted = state.in_vain >= IN_VAIN && now >= state.looked_at + DOUBTED;
        if doubted || seen.presses(state.limit) && now >= state.look_at {
            let before = state.limit;
            let third = self.target(state, seen).div_ceil(3).max(before / 4);
            state.limit = self.bounds.clamp(third.min(before));
            state.part = Part::Looking { before };
        }
    }

    /// What was seen just now was not the limit's doing.
    fn looked(&self, state: &mut FlowState, now: Time, seen: Seen, before: u64) {
        let mut quicker = false;
        if let Some(rtt) = seen.latency() {
            let (was, is) = (state.base.as_nanos(), rtt.as_nanos());
            state.starting |= is > pct(was, 150);
            // One look at few requests is a guess; several are not.
            quicker = is < pct(was, 75);
            let alike = is >= pct(was, 50) && is <= pct(was, 150);
            state.base = if alike { closer(closer(state.base, rtt), rtt) } else { rtt };
        }
        state.drops_anyway = (seen.dropped * 1000 / seen.all()).min(MOST_ANYWAY);
        state.limit = before;
        state.part = Part::Steering;
        state.in_vain = 0;
        let took = now.since(state.began);
        state.looked_at = now;
        let next = if quicker { DOUBTED } else { BELIEVED };
        state.look_at = now + next.max(took.times(LOOKS));
    }
}

/// A quarter of the way from `known` to `seen`.
fn closer(known: Span, seen: Span) -> Span {
    let (known, seen) = (known.as_nanos(), seen.as_nanos());
    Span::from_nanos(known - known / 4 + seen / 4)
}

/// How much of what was known is, after so many requests.
fn forgotten(known: u64, requests: u64) -> u64 {
    known * requests.min(MEMORY) / MEMORY
}

fn pct(of: u64, pct: u64) -> u64 {
    of.saturating_mul(pct) / 100
}

#[cfg(test)]
mod tests;
