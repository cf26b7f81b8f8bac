//! Laws of the sliding log, the slots, the warm-up and the concurrency limit, for any limit,
//! any traffic and any clock. The laws of every algorithm are in `properties/laws.rs`.

#[path = "properties/laws.rs"]
mod laws;

use laws::calls;
use proptest::prelude::*;
use proptest::test_runner::Config;
use tollgate_core::{
    Algorithm, Concurrency, ConcurrencyState, MAX_AMOUNT, MAX_FILL, MAX_SLOTS, Retry,
};
use tollgate_core::{SlidingLog, SlidingLogState, SlidingSlots, Span, Time, WarmUp};

const START: u64 = 1_000_000;

fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

fn ns(nanos: u64) -> Span {
    Span::from_nanos(nanos)
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn log() -> impl Strategy<Value = SlidingLog> {
    let gap = prop_oneof![2 => Just(0), 1 => 0..=100u64];
    (1..20u64, 1..300u64, gap, any::<bool>()).prop_map(|(limit, window, gap, denied)| {
        let log = SlidingLog::new(limit, ns(window)).unwrap();
        let log = log.min_gap(ns(gap.min(window))).unwrap();
        if denied { log.count_denied() } else { log }
    })
}

fn slots() -> impl Strategy<Value = SlidingSlots> {
    (1..20u64, 2..8u32, 1..50u64).prop_map(|(limit, n, width)| {
        SlidingSlots::new(limit, ns(width * u64::from(n)), n).unwrap()
    })
}

fn warm_up() -> impl Strategy<Value = WarmUp> {
    (1..60u64, 1..400u64, 1..2000u64, 2..12u32).prop_map(|(rate, period, warm_up, cold)| {
        WarmUp::new(rate, ns(period), ns(warm_up)).unwrap().cold_factor(cold).unwrap()
    })
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn log_laws(log in log(), past in calls(30, 25, 200), cost in 0..25u64) {
        let (state, now) = laws::lived(&log, at(START), &past);
        laws::hold(&log, &state, now, cost);
    }

    #[test]
    fn slots_laws(slots in slots(), past in calls(30, 25, 200), cost in 0..25u64) {
        let (state, now) = laws::lived(&slots, at(START), &past);
        laws::hold(&slots, &state, now, cost);
    }

    /// All laws but that of the reset: a limiter without debt is full, cold or not.
    #[test]
    fn warm_up_laws(limit in warm_up(), past in calls(30, 25, 400), cost in 0..25u64) {
        let (state, now) = laws::lived(&limit, at(START), &past);
        laws::retry_is_exact(&limit, &state, now, cost);
        laws::denial_changes_nothing(&limit, &state, now, cost);
        laws::refund_never_exceeds_full(&limit, &state, now);
        let mut idle = state;
        limit.charge(&mut idle, limit.full_at(&state), 0);
        prop_assert_eq!(idle, limit.fresh(limit.full_at(&state)));
    }

    #[test]
    fn full_equals_absent(
        (log, slots, warm_up) in (log(), slots(), warm_up()),
        past in calls(20, 25, 300),
        later in 0..500u64,
        next in calls(20, 25, 300),
    ) {
        let (state, now) = laws::lived(&log, at(START), &past);
        laws::full_equals_absent(&log, &state, now.max(log.full_at(&state)) + ns(later), &next);
        let (state, now) = laws::lived(&slots, at(START), &past);
        laws::full_equals_absent(&slots, &state, now.max(slots.full_at(&state)) + ns(later), &next);
        let (state, now) = laws::lived(&warm_up, at(START), &past);
        laws::full_equals_absent(&warm_up, &state, now.max(warm_up.full_at(&state)) + ns(later), &next);
    }

    #[test]
    fn order_is_irrelevant(
        (log, slots, warm_up) in (log(), slots(), warm_up()),
        past in calls(20, 25, 300),
        costs in prop::collection::vec(0..50i64, 0..6),
    ) {
        // With a gap, requests of one instant are not interchangeable.
        let log = log.min_gap(Span::ZERO).unwrap();
        let (state, now) = laws::lived(&log, at(START), &past);
        laws::order_is_irrelevant(&log, &state, now, &costs);
        let (state, now) = laws::lived(&slots, at(START), &past);
        laws::order_is_irrelevant(&slots, &state, now, &costs);
        let (state, now) = laws::lived(&warm_up, at(START), &past);
        laws::order_is_irrelevant(&warm_up, &state, now, &costs);
    }

    /// At most the limit starts within any window, including reservations, and no two starts are
    /// closer than the gap. The check is brute force over all admitted requests.
    #[test]
    fn no_interval_of_a_log_admits_more_than_its_limit(
        (limit, window, gap, denied) in (1..10u64, 1..300u64, 0..50u64, any::<bool>()),
        requests in prop::collection::vec((0..60u64, 1..6u64, 0..400u64), 1..100),
    ) {
        let gap = gap.min(window);
        let log = SlidingLog::new(limit, ns(window)).unwrap().min_gap(ns(gap)).unwrap();
        let log = if denied { log.count_denied() } else { log };
        let (mut state, mut now) = (log.fresh(at(START)), START);
        let mut starts = Vec::new();
        for (after, cost, max_wait) in requests {
            now += after;
            let verdict = log.reserve(&mut state, at(now), cost, ns(max_wait));
            if verdict.allowed {
                prop_assert!(verdict.wait <= ns(max_wait));
                starts.push((now + verdict.wait.as_nanos(), cost));
            }
            prop_assert!(state.entries().len() as u64 <= limit + 2, "{state:?}");
        }
        // The limit does not require reservations to start in order of arrival.
        starts.sort_unstable();
        for (i, &(end, _)) in starts.iter().enumerate() {
            let within = starts.iter().filter(|(start, _)| *start <= end && start + window > end);
            prop_assert!(within.map(|(_, cost)| cost).sum::<u64>() <= limit, "up to {end}: {starts:?}");
            prop_assert!(i == 0 || end - starts[i - 1].0 >= gap, "{starts:?}");
        }
    }

    /// Charges beyond the limit do not grow the log either.
    #[test]
    fn a_log_is_bounded(log in log(), costs in prop::collection::vec((0..3u64, 1..9i64), 0..200)) {
        let (mut state, mut now) = (log.fresh(at(START)), START);
        for (after, cost) in costs {
            now += after;
            log.charge(&mut state, at(now), cost);
            prop_assert!(state.entries().len() as u64 <= log.capacity() + 2);
        }
    }

    /// A log that dropped entries decides like one with all of them.
    #[test]
    fn a_log_drops_only_irrelevant_entries(
        log in log(),
        requests in prop::collection::vec((0..60u64, 0..9u64), 1..100),
    ) {
        let (mut state, mut now) = (log.fresh(at(START)), START);
        let mut all = Vec::new();
        for (after, cost) in requests {
            now += after;
            let complete: SlidingLogState = all.iter().copied().collect();
            let (full, mut copy) = (log.retry_after(&complete, at(now), cost as i64), state.clone());
            let verdict = log.decide(&mut state, at(now), cost);
            prop_assert_eq!(verdict.allowed, full.is_zero() && cost <= log.capacity());
            prop_assert_eq!(log.retry_after(&copy, at(now), cost as i64), full);
            if cost > 0 && (verdict.allowed || log.counts_denied()) {
                all.push((at(now), cost));
            }
            // The last charge can be refunded.
            let before = copy.clone();
            log.charge(&mut copy, at(now), 1000);
            log.charge(&mut copy, at(now), -1000);
            let answers = |state| (0..9).map(|cost| log.retry_after(state, at(now), cost)).collect::<Vec<_>>();
            prop_assert_eq!(answers(&copy), answers(&before));
            prop_assert_eq!(log.peek(&copy, at(now)), log.peek(&before, at(now)));
        }
    }

    /// All or none: an allowed request that another limit refused can be undone without a trace.
    #[test]
    fn an_attempt_can_be_undone(
        (log, slots) in (log(), slots()),
        past in calls(30, 25, 200),
        (cost, max_wait) in (0..25u64, 0..500u64),
    ) {
        let (state, now) = laws::lived(&log, at(START), &past);
        undo(&log, state, now, cost, ns(max_wait));
        let (state, now) = laws::lived(&slots, at(START), &past);
        undo(&slots, state, now, cost, ns(max_wait));
    }

    #[test]
    fn slots_equal_a_naive_model(
        (limit, n, width) in (1..20u64, 2..8u64, 1..50u64),
        requests in prop::collection::vec((0..150u64, prop_oneof![0..9i64, -9..0i64]), 1..100),
    ) {
        let slots = SlidingSlots::new(limit, ns(width * n), n as u32).unwrap();
        let (mut state, mut now) = (slots.fresh(at(START)), START);
        let mut spent = Vec::<(u64, i64)>::new();
        for (after, cost) in requests {
            now += after;
            spent.retain(|(slot, _)| slot + n > now / width);
            let used = spent.iter().map(|(_, cost)| *cost as u64).sum::<u64>();
            prop_assert_eq!(slots.used(&state, at(now)), used);
            if cost < 0 {
                slots.charge(&mut state, at(now), cost);
                for _ in 0..-cost {
                    // The newest slot that is not empty.
                    if let Some(entry) = spent.last_mut() {
                        entry.1 -= 1;
                        spent.retain(|(_, cost)| *cost > 0);
                    }
                }
                continue;
            }
            let verdict = slots.decide(&mut state, at(now), cost as u64);
            prop_assert_eq!(verdict.allowed, used + cost as u64 <= limit);
            if verdict.allowed && cost > 0 {
                spent.push((now / width, cost));
            }
        }
    }

    /// No run of `n` slots starts more than the limit, including reservations.
    #[test]
    fn no_window_of_slots_admits_more_than_its_limit(
        (limit, n, width) in (1..20u64, 2..8u64, 1..50u64),
        requests in prop::collection::vec((0..60u64, 1..9u64, 0..900u64), 1..100),
    ) {
        let slots = SlidingSlots::new(limit, ns(width * n), n as u32).unwrap();
        let (mut state, mut now) = (slots.fresh(at(START)), START);
        let mut starts = Vec::new();
        for (after, cost, max_wait) in requests {
            now += after;
            let verdict = slots.reserve(&mut state, at(now), cost, ns(max_wait));
            if verdict.allowed {
                starts.push(((now + verdict.wait.as_nanos()) / width, cost));
            }
        }
        for &(end, _) in &starts {
            let within = starts.iter().filter(|(slot, _)| *slot <= end && slot + n > end);
            prop_assert!(within.map(|(_, cost)| cost).sum::<u64>() <= limit, "up to {end}: {starts:?}");
        }
    }

    /// The warm-up agrees with Guava's formulas on doubles.
    #[test]
    fn warm_up_equals_the_area_under_the_line(
        (rate, warm_up_ms, cold) in (1..1000u64, 1..10_000u64, 2..12u32),
        taken in prop::collection::vec(1..50u64, 1..20),
    ) {
        let limit = WarmUp::new(rate, Span::from_secs(1), Span::from_millis(warm_up_ms)).unwrap();
        let limit = limit.cold_factor(cold).unwrap();
        let mut state = limit.fresh(Time::EPOCH);
        let (stable, warm_up, factor) = (1e9 / rate as f64, warm_up_ms as f64 * 1e6, f64::from(cold));
        let threshold = 0.5 * warm_up / stable;
        let max = threshold + 2.0 * warm_up / (stable * (1.0 + factor));
        let slope = stable * (factor - 1.0) / (max - threshold);
        let (mut stored, mut next_free) = (max, 0.0);
        for permits in taken {
            limit.charge(&mut state, Time::EPOCH, permits as i64);
            let from_stored = stored.min(permits as f64);
            let above = (stored - threshold).max(0.0);
            let taken_above = above.min(from_stored);
            let dear = taken_above * (2.0 * stable + slope * (2.0 * above - taken_above)) / 2.0;
            next_free += dear + (permits as f64 - taken_above) * stable;
            stored -= from_stored;
            let ours = state.parts().1.0 as f64;
            prop_assert!((ours - next_free).abs() < 2.0 + next_free * 1e-12, "{ours}, not {next_free}");
        }
    }

    #[test]
    fn concurrency_equals_a_naive_model(
        (limit, lease) in (1..10u64, 1..200u64),
        calls in prop::collection::vec((0..40u64, 0..4u8, 0..4u64, 0..12u64, 1..10u64), 1..120),
    ) {
        let (mut state, mut now) = (ConcurrencyState::default(), START);
        let mut model = Vec::<(u64, u64, u64)>::new(); // id, cost, end
        for (after, what, cost, id, moved) in calls {
            now += after;
            model.retain(|(_, _, end)| *end > now);
            let index = model.iter().position(|lease| lease.0 == id);
            let limiter = Concurrency::new(limit, ns(lease)).unwrap();
            match what {
                0 => {
                    let gone = limiter.release(&mut state, at(now), id);
                    prop_assert_eq!(gone, index.map(|index| model.remove(index)).is_some());
                }
                1 => {
                    prop_assert_eq!(limiter.renew(&mut state, at(now), id), index.is_some());
                    if let Some(index) = index {
                        model[index].2 = now + lease;
                    }
                }
                _ => {
                    let limiter = if what == 2 { limiter } else { limiter.with_limit(moved) };
                    let others = model.iter().filter(|lease| lease.0 != id);
                    let sum_at = |t| others.clone().filter(|l| l.2 > t).map(|l| l.1).sum::<u64>();
                    let fits = |t| sum_at(t) + cost <= limiter.capacity();
                    let verdict = limiter.acquire(&mut state, at(now), cost, id);
                    prop_assert_eq!(verdict.allowed, fits(now));
                    match verdict.retry {
                        Retry::Now => prop_assert!(verdict.allowed),
                        Retry::Never => prop_assert!(cost > limiter.capacity()),
                        Retry::After(wait) => {
                            let then = now + wait.as_nanos();
                            prop_assert!(fits(then) && !fits(then - 1));
                        }
                    }
                    if verdict.allowed && cost > 0 {
                        model.retain(|lease| lease.0 != id);
                        model.push((id, cost, now + lease));
                        prop_assert!(limiter.in_flight(&state, at(now)) <= limiter.capacity());
                    }
                }
            }
            let in_flight = model.iter().map(|lease| lease.1).sum::<u64>();
            prop_assert_eq!(limiter.in_flight(&state, at(now)), in_flight);
            let end = model.iter().map(|lease| lease.2).max();
            prop_assert_eq!(limiter.full_at(&state), at(end.unwrap_or(0)));
        }
    }

    /// Amounts, costs and times up to the maximum neither overflow nor panic.
    #[test]
    fn extremes_survive(
        (limit, window, n, cold) in (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>()),
        (edge, denied) in (any::<bool>(), any::<bool>()),
        calls in prop::collection::vec((extreme(), extreme(), any::<i64>()), 1..12),
    ) {
        let (limit, window) = match edge {
            true => (MAX_AMOUNT, MAX_FILL),
            false => (limit % MAX_AMOUNT + 1, ns(window % MAX_FILL.as_nanos() + 1)),
        };
        let log = SlidingLog::new(limit, window).unwrap();
        let log = if denied { log.count_denied().min_gap(window).unwrap() } else { log };
        laws::survives(&log, &calls);
        let n = n % (MAX_SLOTS - 1) + 2;
        let width = (window.as_nanos() / u64::from(n)).max(1);
        laws::survives(&SlidingSlots::new(limit, ns(width).times(n.into()), n).unwrap(), &calls);
        let cold = cold.max(2);
        let rate = (limit / (u64::from(cold) + 5)).clamp(1, MAX_AMOUNT / 8);
        let slow = WarmUp::new(rate, window, window).unwrap().cold_factor(cold).unwrap();
        let fast = WarmUp::new(MAX_AMOUNT / 8, ns(1), window).unwrap();
        laws::survives(&slow, &calls);
        laws::survives(&fast, &calls);
        let (concurrency, mut state) = (Concurrency::new(limit, window).unwrap(), Default::default());
        for (time, cost, signed) in calls {
            concurrency.acquire(&mut state, at(time), cost, signed.unsigned_abs());
            concurrency.renew(&mut state, at(time), cost);
            prop_assert!(concurrency.in_flight(&state, at(time)) <= limit);
            let mut carried = slow.fresh(at(time));
            slow.charge(&mut carried, at(time), signed);
            let carried = fast.carry(&slow, &carried, at(cost));
            slow.carry(&fast, &carried, at(time));
        }
    }
}

fn undo<A: Algorithm>(algo: &A, mut state: A::State, now: Time, cost: u64, max_wait: Span) {
    let answers = |state: &A::State| {
        let retries: Vec<_> = (0..25).map(|cost| algo.retry_after(state, now, cost)).collect();
        (retries, algo.peek(state, now), algo.full_at(state).max(now))
    };
    let before = answers(&state);
    if algo.attempt(&mut state, now, cost, max_wait).allowed {
        algo.charge(&mut state, now, -(cost as i64));
    }
    assert_eq!(answers(&state), before);
}

fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..3u64, (0..3u64).prop_map(|n| u64::MAX - n), Just(MAX_AMOUNT)]
}
