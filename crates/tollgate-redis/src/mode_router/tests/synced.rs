//! Synced limits: exceeded by no more than stated; nothing is pushed twice, nor into the next
//! window.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate::{Action, Consistency, Limit, Time};

use super::{Random, TestNodes, UnderWay, check, ready};

const INTERVAL: Duration = Duration::from_millis(100);

/// Simulates nodes, and returns their admissions: time and node.
fn simulate(limit: &Limit, seed: u64) -> Vec<(Time, usize)> {
    let (mut random, nodes) = (Random(seed), TestNodes::new(4));
    let synced = check(limit, 1, Consistency::Synced);
    let mut admitted = Vec::new();
    let mut under_way: UnderWay<'_, ()> = UnderWay::new();
    for step in 0..3_000_u64 {
        nodes.clock.advance(Duration::from_micros(500 + random.below(1_000)));
        for _ in 0..random.below(5) {
            let node = random.below(4) as usize;
            if nodes.take(node, &synced).allowed {
                admitted.push((nodes.clock.now(), node));
            }
        }
        // Each node exchanges at its own times, at most a hundred milliseconds apart.
        if step % 15 == 0 {
            let modes = &nodes.nodes[(step / 15 % 4) as usize];
            under_way.start(modes.exchange());
        }
        under_way.step();
    }
    admitted
}

#[test]
fn the_overshoot_is_within_the_stated_bound() {
    for text in ["100/s fixed", "50/s burst 20", "300/s sliding"] {
        let limit: Limit = text.parse().unwrap();
        for seed in 0..4 {
            let admitted = simulate(&limit, seed);
            let most = most_unseen(&limit, &admitted);
            let mut over = 0;
            for from in 0..admitted.len() {
                let window = Duration::from_secs(1);
                let start = admitted[from].0;
                // The current window for windows, any second for a bucket.
                let counted = admitted[from..]
                    .iter()
                    .take_while(|(at, _)| Duration::from(at.since(start)) < window)
                    .filter(|(at, _)| same_window(text, start, *at));
                let allowed = allowed_in_a_second(text);
                over = over.max((counted.count() as u64).saturating_sub(allowed));
            }
            assert!(over <= 3 * most, "{text}, seed {seed}: {over} over, stated {}", 3 * most);
        }
    }
}

fn same_window(text: &str, start: Time, at: Time) -> bool {
    let second = |time: Time| time.as_nanos() / 1_000_000_000;
    !text.contains("fixed") || second(start) == second(at)
}

fn allowed_in_a_second(text: &str) -> u64 {
    match text {
        "100/s fixed" => 100,
        "50/s burst 20" => 70,
        // Two counters estimate: in the worst case twice the limit passes.
        _ => 600,
    }
}

/// Returns the most that one node admitted between two exchanges of all: two intervals.
fn most_unseen(limit: &Limit, admitted: &[(Time, usize)]) -> u64 {
    let unseen = (0..admitted.len()).map(|from| {
        let (start, node) = admitted[from];
        let near = |(at, _): &&(Time, usize)| Duration::from(at.since(start)) <= 2 * INTERVAL;
        admitted[from..].iter().take_while(near).filter(|(_, other)| *other == node).count()
    });
    (unseen.max().unwrap_or(0) as u64).min(limit.capacity())
}

#[test]
fn nodes_learn_of_each_other() {
    let limit: Limit = "100/h".parse().unwrap();
    let synced = check(&limit, 10, Consistency::Synced);
    let nodes = TestNodes::new(2);
    assert_eq!(nodes.take(0, &synced).remaining, 90);
    assert_eq!(nodes.take(1, &synced).remaining, 80);
    let calls = nodes.calls();
    (0..3).for_each(|_| assert!(nodes.take(0, &synced).allowed));
    assert_eq!(nodes.take(1, &synced).remaining, 70);
    assert_eq!(nodes.calls(), calls);
    nodes.nodes.iter().for_each(|modes| ready(modes.exchange()));
    assert_eq!(nodes.calls(), calls + 2);
    assert_eq!(nodes.run(1, Action::Peek, &synced).remaining, 40);
    assert_eq!(nodes.run(0, Action::Peek, &synced).remaining, 50);
    // The next exchange pulls the state.
    ready(nodes.nodes[0].exchange());
    assert_eq!(nodes.run(0, Action::Peek, &synced).remaining, 40);
}

#[test]
fn decisions_continue_while_the_store_is_down() {
    let limit: Limit = "100/h fixed".parse().unwrap();
    let synced = check(&limit, 1, Consistency::Synced);
    let nodes = TestNodes::new(2);
    nodes.take(0, &synced);
    nodes.backends[0].away.store(true, Ordering::Relaxed);
    for _ in 0..9 {
        assert!(nodes.take(0, &synced).allowed);
        ready(nodes.nodes[0].exchange());
    }
    nodes.backends[0].away.store(false, Ordering::Relaxed);
    ready(nodes.nodes[0].exchange());
    ready(nodes.nodes[0].exchange());
    let strict = check(&limit, 1, Consistency::Strict);
    assert_eq!(nodes.run(1, Action::Peek, &strict).remaining, 90);
}

#[test]
fn refilled_units_are_not_pushed() {
    for text in ["100/s", "100/s fixed"] {
        let limit: Limit = text.parse().unwrap();
        let (synced, strict) =
            (check(&limit, 50, Consistency::Synced), check(&limit, 1, Consistency::Strict));
        let nodes = TestNodes::new(2);
        nodes.take(0, &synced);
        nodes.backends[0].away.store(true, Ordering::Relaxed);
        nodes.take(0, &synced);
        ready(nodes.nodes[0].exchange());
        nodes.clock.advance(Duration::from_secs(2));
        nodes.backends[0].away.store(false, Ordering::Relaxed);
        ready(nodes.nodes[0].exchange());
        assert_eq!(nodes.run(1, Action::Peek, &strict).remaining, 100, "{text}");
    }
}

#[test]
fn a_push_without_a_reply_is_not_repeated() {
    let limit: Limit = "100/h".parse().unwrap();
    let synced = check(&limit, 10, Consistency::Synced);
    let nodes = TestNodes::new(1);
    nodes.take(0, &synced);
    nodes.take(0, &synced);
    nodes.backends[0].slow.store(4, Ordering::Relaxed);
    let mut under_way = UnderWay::new();
    under_way.start(nodes.nodes[0].exchange());
    let mut left = 20;
    while under_way.step().is_empty() {
        nodes.clock.advance(Duration::from_millis(30));
        left -= 1;
        assert!(left > 0, "it takes for ever");
    }
    nodes.backends[0].slow.store(0, Ordering::Relaxed);
    ready(nodes.nodes[0].exchange());
    let strict = check(&limit, 1, Consistency::Strict);
    let remaining = nodes.run(0, Action::Peek, &strict).remaining;
    assert!([80, 90].contains(&remaining), "{remaining}");
}

#[test]
fn the_bound_follows_the_synced_limits() {
    let limit: Limit = "100/s".parse().unwrap();
    let synced = check(&limit, 1, Consistency::Synced);
    let nodes = TestNodes::new(4);
    assert_eq!(nodes.nodes[0].overshoot_bound(), 0);
    nodes.take(0, &synced);
    assert_eq!(nodes.nodes[0].overshoot_bound(), 300);
    for _ in 0..30 {
        ready(nodes.nodes[0].exchange());
    }
    assert_eq!(nodes.nodes[0].overshoot_bound(), 0);
    let calls = nodes.calls();
    nodes.take(0, &synced);
    assert_eq!(nodes.calls(), calls + 1);
}

#[test]
fn a_request_refused_by_another_check_is_refunded() {
    let (wide, narrow): (Limit, Limit) = ("100/h".parse().unwrap(), "1/h".parse().unwrap());
    let nodes = TestNodes::new(1);
    let checks = [
        check(&wide, 1, Consistency::Synced),
        tollgate::Check::new(tollgate::CounterId::new(2), "ann", &narrow, 1),
    ];
    let run = || {
        let call = tollgate::StoreCall { action: super::TAKE, checks: &checks };
        ready(nodes.nodes[0].run(call)).unwrap()
    };
    assert!(run().iter().all(|verdict| verdict.allowed));
    for _ in 0..3 {
        assert_eq!([0, 1].map(|i| run()[i].allowed), [true, false]);
    }
    ready(nodes.nodes[0].exchange());
    assert_eq!(nodes.run(0, Action::Peek, &checks[0]).remaining, 99);
}

#[test]
fn counted_refusals_are_pushed() {
    let limit: Limit = "2/h fixed count_denied".parse().unwrap();
    let synced = check(&limit, 1, Consistency::Synced);
    let nodes = TestNodes::new(2);
    (0..5).for_each(|_| _ = nodes.take(0, &synced));
    ready(nodes.nodes[0].exchange());
    nodes.run(1, Action::Refund, &check(&limit, 4, Consistency::Strict));
    let strict = check(&limit, 0, Consistency::Strict);
    assert_eq!(nodes.run(1, Action::Peek, &strict).remaining, 1);
}
