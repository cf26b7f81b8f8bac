//! Leased limits: never exceeded, whatever the traffic and the delays; rarely underused; few calls.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate::{
    Action, Check, Consistency, CounterId, Limit, LimitAlgorithm, Retry, Span, StoreCall,
    StoreErrorKind, Time,
};
use tollgate_core::Window;

use super::{Random, TAKE, TestNodes, UnderWay, check, ready};

/// The admitted requests: time and cost.
type Admitted = Vec<(Time, u64)>;

/// Asserts that no interval admits more than the limit: every interval is checked.
fn assert_never_over(limit: &Limit, mut admitted: Admitted, seed: u64) {
    admitted.sort_unstable();
    match limit.algorithm() {
        LimitAlgorithm::Meter(meter) => {
            let parts = meter.parts();
            for from in 0..admitted.len() {
                let mut sum = 0;
                for (at, cost) in &admitted[from..] {
                    sum += u128::from(*cost);
                    let span = u128::from(at.since(admitted[from].0).as_nanos());
                    let over = sum.saturating_sub(limit.capacity().into());
                    assert!(
                        over * u128::from(parts.period) <= span * u128::from(parts.rate),
                        "{limit}, seed {seed}: {sum} from {:?} to {at:?}",
                        admitted[from].0
                    );
                }
            }
        }
        LimitAlgorithm::FixedWindow(window) => {
            let Window::Aligned { length, .. } = window.window() else { panic!("{limit}") };
            let mut sums = std::collections::BTreeMap::<u64, u64>::new();
            for (at, cost) in admitted {
                *sums.entry(at.as_nanos() / length.as_nanos()).or_default() += cost;
            }
            assert!(sums.values().all(|sum| *sum <= limit.capacity()), "{limit}, seed {seed}");
        }
        _ => panic!("{limit}"),
    }
}

/// Phases of traffic: requests at a time, the number of nodes they go to, and the microseconds
/// between them.
const PHASES: [(u64, u64, u64); 5] =
    [(0, 4, 90_000), (1, 4, 4_000), (5, 1, 1_000), (8, 4, 2_000), (80, 4, 200)];

/// Simulates four nodes, each with its own traffic and delays.
fn simulate(limit: &Limit, seed: u64, steps: u64) -> Admitted {
    let mut random = Random(seed);
    let nodes = TestNodes::new(4);
    for backend in &nodes.backends {
        backend.slow.store(random.below(4), Ordering::Relaxed);
        *backend.ahead.lock() = Span::from_micros(random.below(300));
    }
    let mut under_way: UnderWay<'_, Option<(Time, u64)>> = UnderWay::new();
    let mut admitted = Admitted::new();
    let (mut phase, mut first) = (PHASES[0], 0);
    for _ in 0..steps {
        if random.below(12) == 0 {
            (phase, first) = (PHASES[random.below(5) as usize], random.below(4));
        }
        let (requests, spread, pause) = phase;
        for _ in 0..requests {
            let (node, cost) = ((first + random.below(spread)) % 4, 1 + random.below(9) / 8);
            let modes = &nodes.nodes[node as usize];
            under_way.start(async move {
                let check = check(limit, cost, Consistency::Leased);
                let lease = modes.leases.open(&check).expect("there is capacity");
                let (verdict, at) = modes.leases.take(&lease, &check, Span::ZERO).await.ok()?;
                verdict.allowed.then_some((at, cost))
            });
        }
        for done in under_way.step().into_iter().flatten() {
            // A node's estimate of the time is slightly ahead.
            admitted.push((done.0.min(nodes.clock.now()), done.1));
        }
        nodes.clock.advance(Duration::from_micros(random.below(pause)));
        let modes = &nodes.nodes[random.below(4) as usize];
        under_way.start(async move {
            modes.return_chunks().await;
            None
        });
    }
    admitted
}

#[test]
fn no_interval_admits_more_than_the_limit() {
    for text in [
        "20/s burst 40",
        "1000/s burst 100",
        "200/s burst 60",
        "7/s burst 100",
        "100/min",
        "300/s fixed",
        "50/min fixed",
    ] {
        let limit: Limit = text.parse().unwrap();
        let mut total = 0;
        for seed in 0..6 {
            let admitted = simulate(&limit, seed, 500);
            total += admitted.iter().map(|(_, cost)| cost).sum::<u64>();
            assert_never_over(&limit, admitted, seed);
        }
        assert!(total > limit.capacity(), "{text}: only {total}");
    }
}

/// Two nodes build up chunks, and one of them returns its chunk. Then all nodes take as much as
/// they can.
#[test]
fn returned_units_are_not_spent_twice() {
    let limit: Limit = "200/s burst 200".parse().unwrap();
    let leased = check(&limit, 1, Consistency::Leased);
    let mut brought_back = 0;
    for seed in 0..400 {
        let (mut random, nodes) = (Random(seed), TestNodes::new(3));
        let mut admitted = Admitted::new();
        let mut take = |node: usize| {
            let allowed = nodes.take(node, &leased).allowed;
            admitted.extend(allowed.then(|| (nodes.clock.now(), 1)));
            allowed
        };
        // Either little was spent, and it refills soon; or much, and the chunk may be returned.
        let much = 40 * (seed % 3);
        let [spent, first, second] = [0, much, 0].map(|more| more + 1 + random.below(30));
        let mut advance = |most| nodes.clock.advance(Duration::from_millis(random.below(most)));
        (0..spent).for_each(|_| _ = take(2));
        (0..first).for_each(|_| _ = take(0));
        (0..second).for_each(|_| _ = take(1));
        nodes.clock.advance(Duration::from_millis(150));
        advance(60);
        let calls = nodes.calls();
        ready(nodes.nodes[0].return_chunks());
        brought_back += nodes.calls() - calls;
        advance(if seed % 2 == 0 { 60 } else { 500 });
        (0..3).for_each(|node| while take(node) {});
        assert_never_over(&limit, admitted, seed);
    }
    assert!(brought_back > 10, "{brought_back}");
}

#[test]
fn nothing_is_returned_to_a_window_that_may_have_ended() {
    let limit: Limit = "200/s fixed".parse().unwrap();
    let leased = check(&limit, 1, Consistency::Leased);
    for (before_the_end, calls) in [(60, 1), (40, 0)] {
        let nodes = TestNodes::new(1);
        nodes.clock.advance(Duration::from_millis(1000 - before_the_end));
        (0..10).for_each(|_| assert!(nodes.take(0, &leased).allowed));
        let before = nodes.calls();
        ready(nodes.nodes[0].leases.return_chunks(true));
        assert_eq!(nodes.calls() - before, calls);
    }
}

#[test]
fn a_hot_key_calls_the_store_seldom() {
    let limit: Limit = "100k/h fixed".parse().unwrap();
    let leased = check(&limit, 1, Consistency::Leased);
    let nodes = TestNodes::new(4);
    let mut admitted = 0;
    for i in 0..120_000 {
        nodes.clock.advance(Duration::from_micros(10));
        admitted += u64::from(nodes.take(i % 4, &leased).allowed);
        if i % 5_000 == 0 {
            nodes.nodes.iter().for_each(|modes| ready(modes.return_chunks()));
        }
    }
    assert_eq!(admitted, 100_000);
    assert!(nodes.calls() * 50 <= admitted, "{} calls", nodes.calls());
}

/// Four nodes, each with more requests than all of them may admit.
#[test]
fn a_saturated_limit_is_used_up_with_few_calls() {
    for (text, share) in [("10k/s", 97), ("1k/s burst 50", 90)] {
        let limit: Limit = text.parse().unwrap();
        let leased = check(&limit, 1, Consistency::Leased);
        let nodes = TestNodes::new(4);
        let (mut admitted, mut calls) = (0, 0);
        for i in 0..60_000_u64 {
            if i == 20_000 {
                (admitted, calls) = (0, nodes.calls());
            }
            nodes.clock.advance(Duration::from_micros(50));
            admitted += u64::from(nodes.take((i % 4) as usize, &leased).allowed);
            if i % 1_000 == 0 {
                nodes.nodes.iter().for_each(|modes| ready(modes.return_chunks()));
            }
        }
        let (rate, calls) = (limit.summary().amount, nodes.calls() - calls);
        assert!(admitted * 100 >= 2 * rate * share, "{text}: {admitted} of {}", 2 * rate);
        assert!(calls <= 4 * 2 * 400, "{text}: {calls} calls");
    }
}

#[test]
fn concurrent_requests_share_a_call() {
    let limit: Limit = "1000/h".parse().unwrap();
    let nodes = TestNodes::new(1);
    nodes.backends[0].slow.store(5, Ordering::Relaxed);
    let mut under_way = UnderWay::new();
    for _ in 0..64 {
        let modes = &nodes.nodes[0];
        let limit = &limit;
        under_way.start(async move {
            let checks = [check(limit, 1, Consistency::Leased)];
            modes.run(StoreCall { action: TAKE, checks: &checks }).await.unwrap()[0].allowed
        });
    }
    let done: Vec<bool> = (0..200).flat_map(|_| under_way.step()).collect();
    assert_eq!(done, [true; 64]);
    assert!(nodes.calls() <= 4, "{}", nodes.calls());
}

#[test]
fn concurrent_requests_share_an_error() {
    let limit: Limit = "1000/h".parse().unwrap();
    let nodes = TestNodes::new(1);
    nodes.backends[0].slow.store(5, Ordering::Relaxed);
    let mut under_way = UnderWay::new();
    for _ in 0..8 {
        let modes = &nodes.nodes[0];
        let limit = &limit;
        under_way.start(async move {
            let checks = [check(limit, 1, Consistency::Leased)];
            modes.run(StoreCall { action: TAKE, checks: &checks }).await.unwrap_err().kind()
        });
    }
    // A request that takes too long.
    let mut done = Vec::new();
    for _ in 0..20 {
        done.extend(under_way.step());
        nodes.clock.advance(Duration::from_millis(30));
    }
    assert_eq!(done, [StoreErrorKind::TimedOut; 8]);
    assert_eq!(nodes.calls(), 1);
}

#[test]
fn an_idle_chunk_is_returned() {
    for text in ["1000/h burst 1000", "1000/h fixed"] {
        let limit: Limit = text.parse().unwrap();
        let (leased, strict) =
            (check(&limit, 1, Consistency::Leased), check(&limit, 0, Consistency::Strict));
        let nodes = TestNodes::new(2);
        (0..100).for_each(|_| assert!(nodes.take(0, &leased).allowed));
        let in_chunks = 900 - nodes.run(1, Action::Peek, &strict).remaining;
        assert!(in_chunks > 0, "{text}");
        assert_eq!(nodes.run(0, Action::Peek, &leased).remaining, 900);
        nodes.clock.advance(Duration::from_millis(160));
        ready(nodes.nodes[0].return_chunks());
        assert_eq!(nodes.run(1, Action::Peek, &strict).remaining, 900);
        // The chunk is gone from this node.
        let calls = nodes.calls();
        assert!(nodes.take(0, &leased).allowed);
        assert_eq!(nodes.calls(), calls + 1);
    }
}

#[test]
fn refunds_and_resets_are_seen() {
    let limit: Limit = "100/h".parse().unwrap();
    let leased = check(&limit, 10, Consistency::Leased);
    let nodes = TestNodes::new(1);
    let take = || nodes.take(0, &leased).allowed;
    assert_eq!((0..20).filter(|_| take()).count(), 10);
    assert!(nodes.run(0, Action::Refund, &leased).allowed);
    assert!(take() && !take());
    nodes.run(0, Action::Reset, &leased);
    assert_eq!((0..20).filter(|_| take()).count(), 10);
    let Retry::After(wait) = nodes.take(0, &leased).retry else { panic!("no time to retry") };
    nodes.clock.advance(wait.into());
    assert!(take());
}

#[test]
fn a_request_refused_by_another_check_spends_nothing() {
    let (wide, narrow): (Limit, Limit) = ("100/h".parse().unwrap(), "1/h".parse().unwrap());
    for mode in [Consistency::Strict, Consistency::Leased, Consistency::Synced] {
        let nodes = TestNodes::new(1);
        let checks = [
            check(&wide, 1, Consistency::Leased),
            Check { consistency: mode, ..Check::new(CounterId::new(2), "ann", &narrow, 1) },
        ];
        let verdicts =
            || ready(nodes.nodes[0].run(StoreCall { action: TAKE, checks: &checks })).unwrap();
        assert!(verdicts().iter().all(|verdict| verdict.allowed));
        for _ in 0..5 {
            let verdicts = verdicts();
            assert_eq!([0, 1].map(|i| verdicts[i].allowed), [true, false], "{mode:?}");
            assert_eq!(verdicts[0].remaining, 99);
        }
        assert_eq!(nodes.run(0, Action::Peek, &checks[0]).remaining, 99);
    }
}
