//! Checks what nodes that share a limit without a common store allow together.

use proptest::prelude::*;
use tollgate_core::{Span, Time};

use super::roundtrip::text;
use crate::limit::Limit;
use crate::state::{self, State};
use crate::store::{Action, Check, CounterId, StoreCall};

/// The counter of one node, or of the whole limit.
struct NodeCounter {
    limit: Limit,
    state: [Option<State>; 1],
    leases: u64,
}

impl NodeCounter {
    fn new(limit: Limit) -> NodeCounter {
        NodeCounter { limit, state: [None], leases: 0 }
    }

    fn take(&mut self, cost: u64, now: Time) -> bool {
        self.leases += 1;
        let check = Check::new(CounterId::new(0), "ann", &self.limit, cost);
        let checks = [Check { lease: self.leases, ..check }];
        let action = Action::Take { max_wait: Span::ZERO };
        state::run(StoreCall { action, checks: &checks }, &mut self.state, now)[0].allowed
    }
}

/// Generates requests: pause in milliseconds, node and cost.
fn traffic() -> impl Strategy<Value = Vec<(u64, usize, u64)>> {
    let pause = prop_oneof![4 => 0..3_u64, 2 => 0..300_u64, 1 => 0..5_000_u64];
    prop::collection::vec((pause, 0..8_usize, 1..4_u64), 1..300)
}

/// Asserts that `whole` allows every request that nodes with shares of `limit` allow.
fn assert_shares_keep(limit: &str, whole: &str, nodes: u64, traffic: &[(u64, usize, u64)]) {
    let limit: Limit = limit.parse().unwrap();
    let mut whole = NodeCounter::new(whole.parse().unwrap());
    let shares = (0..nodes).map(|_| NodeCounter::new(limit.shared_by(nodes)));
    let mut shares: Vec<NodeCounter> = shares.collect();
    let mut now = Time::EPOCH + Span::from_secs(1_000_000);
    for (pause, node, cost) in traffic {
        now = now + Span::from_millis(*pause);
        if shares[node % nodes as usize].take(*cost, now) {
            assert!(whole.take(*cost, now), "{limit} by {nodes}: {} at {now:?}", whole.limit);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nodes_together_allow_no_more_than_the_limit(
        amount in 8..40_u64,
        more in 0..40_u64,
        nodes in 2..=8_u64,
        traffic in traffic(),
    ) {
        let burst = amount + more;
        for limit in [
            format!("{amount}/s burst {burst}"),
            format!("{amount}/7s gcra"),
            format!("{amount}/s interval burst {burst}"),
            format!("{amount}/s leaky free {amount} burst {burst}"),
            format!("{amount}/s fixed"),
            format!("{amount}/min fixed count_denied"),
            format!("{amount}/day calendar zone Europe/Berlin"),
            format!("{amount}/2s log"),
            format!("{amount}/2s sliding slots 4"),
            format!("{amount} concurrent lease 2s"),
        ] {
            assert_shares_keep(&limit, &limit.replace(" count_denied", ""), nodes, &traffic);
        }
        // The initial tokens count from the first request of a key, which differs per node.
        let counter = format!("{amount}/s burst {burst}");
        assert_shares_keep(&format!("{counter} initial {amount}"), &counter, nodes, &traffic);
        // Each node rounds its estimate down, by less than one.
        let whole = format!("{}/2s sliding", amount + nodes - 1);
        assert_shares_keep(&format!("{amount}/2s sliding"), &whole, nodes, &traffic);
    }

    /// With fewer tokens than nodes, each node allows one at once and then keeps the rate.
    #[test]
    fn a_rate_below_the_number_of_nodes_is_exceeded_only_at_first(
        amount in 1..8_u64,
        traffic in traffic(),
    ) {
        let whole = |options: &str, burst: u64| format!("{amount}/s {options} burst {burst}");
        let traffic: Vec<_> = traffic.iter().map(|(pause, node, _)| (*pause, *node, 1)).collect();
        assert_shares_keep(&format!("{amount}/s"), &whole("", 8), 8, &traffic);
        // Every node can allow one before and one after a refill of all nodes.
        assert_shares_keep(&format!("{amount}/s interval"), &whole("interval", 16), 8, &traffic);
    }

    #[test]
    fn every_limit_has_shares_that_are_no_larger_than_the_limit(
        text in text(),
        nodes in prop_oneof![1..9_u64, any::<u64>()],
    ) {
        if let Ok(limit) = text.parse::<Limit>() {
            let share = limit.shared_by(nodes);
            prop_assert!((1..=limit.capacity()).contains(&share.capacity()), "{limit}: {share}");
            prop_assert_eq!(limit.unit_label(), share.unit_label());
            prop_assert_eq!(limit.shared_by(1), limit.clone());
            let at_most = limit.capacity() / nodes.max(1);
            prop_assert!(share.capacity() <= at_most.max(1) || limit.capacity() == u64::MAX
                || text.contains("warmup"), "{limit} by {nodes}: {share}");
        }
    }
}

#[test]
fn shares_print_as_limits() {
    let share = |text: &str, nodes| text.parse::<Limit>().unwrap().shared_by(nodes).to_string();
    for (limit, nodes, expected) in [
        ("10/s", 4, "10/4s burst 2"),
        ("10/s burst 20", 4, "10/4s burst 5"),
        ("3/s", 5, "3/5s burst 1"),
        ("200k tokens/min burst 300k", 3, "200k tokens/3min burst 100k"),
        ("1k/month", 3, "1k/90d burst 333"),
        ("20/s leaky free 5 burst 50", 4, "20/4s leaky burst 12"),
        ("60/min interval", 4, "15/min interval"),
        ("2/min interval", 5, "1/3min interval"),
        ("10/s warmup 3s", 2, "10/2s warmup 3s"),
        ("100/h fixed count_denied", 7, "14/h fixed count_denied"),
        ("3/day calendar zone Europe/Berlin", 4, "1/day calendar zone Europe/Berlin"),
        ("500/h sliding slots 60", 2, "250/h sliding slots 60"),
        ("500/h log min_gap 100ms", 2, "250/h log min_gap 200ms"),
        ("5/s log min_gap 500ms", 3, "1/s log min_gap 1s"),
        ("adaptive 20..500 concurrent", 50, "adaptive 1..10 concurrent"),
        ("unlimited", 3, "unlimited"),
        ("10/year", 1 << 20, "1/year"),
    ] {
        assert_eq!(share(limit, nodes), expected, "{limit} by {nodes}");
    }
}
