//! Fixed and sliding windows: exact waits, and no window above its limit.

use std::sync::Arc;

use proptest::prelude::*;
use tollgate_core::{
    Algorithm, Calendar, FixedWindow, FixedWindowState, SlidingWindow, SlidingWindowState, Span,
    Time, Window,
};

use crate::cases;
use crate::laws::{self, calls};

const START: u64 = 1_000_000;

/// A calendar of periods of 3, 5 and 9 nanoseconds in turn, since months differ in length.
#[derive(Debug)]
struct Uneven;

impl Calendar for Uneven {
    fn period_end(&self, now: Time) -> Time {
        let (round, into) = (now.as_nanos() / 17 * 17, now.as_nanos() % 17);
        let end = [3, 8, 17].into_iter().find(|end| into < *end).unwrap();
        Time::from_nanos(round.saturating_add(end))
    }

    fn longest(&self) -> Span {
        Span::from_nanos(9)
    }
}

fn layout() -> impl Strategy<Value = Window> {
    let length = (1..300u64).prop_map(Span::from_nanos);
    prop_oneof![
        (length.clone(), 0..2 * START)
            .prop_map(|(length, phase)| Window::Aligned { length, phase: Time::from_nanos(phase) }),
        length.prop_map(|length| Window::FirstHit { length }),
        Just(Window::Calendar(Arc::new(Uneven))),
    ]
}

fn fixed() -> impl Strategy<Value = FixedWindow> {
    (1..20u64, layout(), any::<bool>(), any::<bool>()).prop_map(
        |(limit, layout, denied, across)| {
            let window = FixedWindow::new(limit, layout).unwrap();
            match (denied, across) {
                (true, _) => window.count_denied(),
                (_, true) => window.reserve_across_windows(),
                _ => window,
            }
        },
    )
}

fn sliding() -> impl Strategy<Value = SlidingWindow> {
    (1..40u64, 1..300u64, any::<bool>()).prop_map(|(limit, length, denied)| {
        let window = SlidingWindow::new(limit, Span::from_nanos(length)).unwrap();
        if denied { window.count_denied() } else { window }
    })
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn fixed_window_laws(window in fixed(), past in calls(30, 25, 400), cost in 0..25u64) {
        let (state, now) = laws::lived(&window, Time::from_nanos(START), &past);
        laws::hold(&window, &state, now, cost);
    }

    #[test]
    fn sliding_window_laws(window in sliding(), past in calls(30, 45, 300), cost in 0..45u64) {
        let (state, now) = laws::lived(&window, Time::from_nanos(START), &past);
        laws::hold(&window, &state, now, cost);
    }

    #[test]
    fn full_equals_absent(
        (fixed, sliding) in (fixed(), sliding()),
        past in calls(20, 25, 300),
        later in 0..500u64,
        next in calls(20, 25, 300),
    ) {
        let start = Time::from_nanos(START);
        let (state, now) = laws::lived(&fixed, start, &past);
        let at = now.max(fixed.full_at(&state)) + Span::from_nanos(later);
        laws::full_equals_absent(&fixed, &state, at, &next);
        let (state, now) = laws::lived(&sliding, start, &past);
        let at = now.max(sliding.full_at(&state)) + Span::from_nanos(later);
        laws::full_equals_absent(&sliding, &state, at, &next);
    }

    #[test]
    fn order_is_irrelevant(
        (fixed, sliding) in (fixed(), sliding()),
        past in calls(20, 25, 300),
        costs in prop::collection::vec(0..50i64, 0..6),
    ) {
        let start = Time::from_nanos(START);
        let (state, now) = laws::lived(&fixed, start, &past);
        laws::order_is_irrelevant(&fixed, &state, now, &costs);
        let (state, now) = laws::lived(&sliding, start, &past);
        laws::order_is_irrelevant(&sliding, &state, now, &costs);
    }

    /// Every window pays at most its limit of everything admitted.
    #[test]
    fn no_run_of_windows_admits_more_than_its_limits(
        limit in 1..20u64,
        length in 1..300u64,
        requests in prop::collection::vec((0..100u64, 0..20u64, 0..900u64), 1..100),
    ) {
        let window = FixedWindow::new(limit, Window::epoch(Span::from_nanos(length))).unwrap();
        let mut now = START;
        let mut state = window.fresh(Time::from_nanos(now));
        let mut admitted = Vec::new();
        for (after, cost, max_wait) in requests {
            now += after;
            let max_wait = Span::from_nanos(max_wait);
            let verdict = window.reserve(&mut state, Time::from_nanos(now), cost, max_wait);
            if verdict.allowed {
                prop_assert!(verdict.wait <= max_wait);
                admitted.push((now / length, (now + verdict.wait.as_nanos()) / length, cost));
            }
        }
        for (i, &(from, _, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for &(_, to, cost) in &admitted[i..] {
                sum += cost;
                prop_assert!(sum <= limit * (to - from + 1), "{sum} in windows {from} to {to}");
            }
        }
    }

    /// The estimate never admits more than the limit in one window.
    #[test]
    fn sliding_window_stays_below_the_fixed_one(
        window in sliding(),
        requests in prop::collection::vec((0..100u64, 0..20u64), 1..100),
    ) {
        let length = window.length().as_nanos();
        let mut now = START;
        let mut state = window.fresh(Time::from_nanos(now));
        let mut spent = std::collections::BTreeMap::<u64, u64>::new();
        for (after, cost) in requests {
            now += after;
            if window.decide(&mut state, Time::from_nanos(now), cost).allowed {
                *spent.entry(now / length).or_default() += cost;
            }
        }
        prop_assert!(spent.values().all(|sum| *sum <= window.capacity()));
    }

    #[test]
    fn survives_extremes(
        (limit, length, phase, shift) in (any::<u64>(), any::<u64>(), any::<u64>(), 0..64u32),
        calls in prop::collection::vec((any::<u64>(), any::<u64>(), any::<i64>()), 1..8),
        (end, used) in (any::<u64>().prop_map(Time::from_nanos), any::<u64>()),
    ) {
        let (limit, length) = (limit >> (63 - shift), Span::from_nanos(length >> shift));
        let layouts = [
            Window::Aligned { length, phase: Time::from_nanos(phase) },
            Window::FirstHit { length },
            Window::Calendar(Arc::new(Uneven)),
        ];
        for layout in layouts {
            let Ok(window) = FixedWindow::new(limit, layout) else { continue };
            let across = window.clone().reserve_across_windows();
            for window in [window.clone().count_denied(), window, across] {
                laws::survives(&window, &calls);
                laws::survives_from(&window, FixedWindowState::from_parts(end, used), &calls);
            }
        }
        if let Ok(window) = SlidingWindow::new(limit, length) {
            let stored = SlidingWindowState::from_parts(end, used, limit.rotate_left(shift));
            for window in [window, window.count_denied()] {
                laws::survives(&window, &calls);
                laws::survives_from(&window, stored, &calls);
            }
        }
    }
}
