//! Exhausted counters are refused without the store, with the verdicts of the store.

use std::time::Duration;

use tollgate::{Action, Check, Consistency, CounterId, Limit, Retry, StoreCall, Verdicts};

use super::{TAKE, TestNodes, check, ready};

fn strict(limit: &Limit, cost: u64) -> Check<'_> {
    check(limit, cost, Consistency::Strict)
}

#[test]
fn an_exhausted_key_causes_no_call_until_its_retry_time() {
    for text in ["5/min", "5/min fixed", "5/min sliding", "5/min log", "5/min interval"] {
        let limit: Limit = text.parse().unwrap();
        let nodes = TestNodes::new(2);
        nodes.clock.advance(Duration::from_secs(1));
        (0..5).for_each(|_| assert!(nodes.take(0, &strict(&limit, 1)).allowed));
        let refused = nodes.take(0, &strict(&limit, 1));
        let Retry::After(wait) = refused.retry else { panic!("{text}: {refused:?}") };
        let calls = nodes.calls();
        assert_eq!(nodes.take(0, &strict(&limit, 1)), refused, "{text}");
        nodes.clock.advance(Duration::from(wait) - Duration::from_micros(1));
        assert!(!nodes.take(0, &strict(&limit, 1)).allowed, "{text}");
        assert_eq!(nodes.calls(), calls, "{text}");
        nodes.clock.advance(Duration::from_micros(1));
        assert!(nodes.take(0, &strict(&limit, 1)).allowed, "{text}");
        assert_eq!(nodes.calls(), calls + 1, "{text}");
    }
}

#[test]
fn cached_verdicts_equal_those_of_the_store() {
    let (wide, narrow): (Limit, Limit) = ("100/h".parse().unwrap(), "1/h".parse().unwrap());
    let nodes = TestNodes::new(2);
    let checks = [
        Check::new(CounterId::new(1), "ann", &wide, 1),
        Check::new(CounterId::new(2), "ann", &narrow, 1),
    ];
    let run = |node: usize| -> Verdicts {
        ready(nodes.nodes[node].run(StoreCall { action: TAKE, checks: &checks })).unwrap()
    };
    run(0);
    let refused = run(0);
    let calls = nodes.calls();
    for ms in [0, 1, 500] {
        nodes.clock.advance(Duration::from_millis(ms));
        let cached = run(0);
        let from_store = run(1);
        assert_eq!(cached, if ms == 0 { refused.clone() } else { from_store });
    }
    // Only the other node called the store, and only once.
    assert_eq!(nodes.calls(), calls + 1);
}

#[test]
fn a_smaller_request_calls_the_store() {
    let limit: Limit = "10/h".parse().unwrap();
    let nodes = TestNodes::new(1);
    assert!(nodes.take(0, &strict(&limit, 7)).allowed);
    assert!(!nodes.take(0, &strict(&limit, 5)).allowed);
    let calls = nodes.calls();
    assert!(!nodes.take(0, &strict(&limit, 4)).allowed);
    assert_eq!(nodes.calls(), calls);
    assert!(nodes.take(0, &strict(&limit, 3)).allowed);
    assert!(!nodes.take(0, &strict(&limit, 1)).allowed);
}

#[test]
fn a_refund_of_this_node_is_seen_at_once() {
    let limit: Limit = "3/h".parse().unwrap();
    for action in [Action::Refund, Action::Reset] {
        let nodes = TestNodes::new(1);
        assert!(nodes.take(0, &strict(&limit, 3)).allowed);
        assert!(!nodes.take(0, &strict(&limit, 1)).allowed);
        nodes.clock.advance(Duration::from_millis(1));
        nodes.run(0, action, &strict(&limit, 1));
        assert!(nodes.take(0, &strict(&limit, 1)).allowed, "{action:?}");
    }
}

#[test]
fn counted_refusals_and_concurrency_limits_are_not_cached() {
    for text in ["2/h fixed count_denied", "2/h log count_denied", "2 concurrent"] {
        let limit: Limit = text.parse().unwrap();
        let nodes = TestNodes::new(1);
        for i in 0..5 {
            nodes.take(0, &Check { lease: i, ..strict(&limit, 1) });
            assert_eq!(nodes.calls(), i + 1, "{text}");
        }
    }
}

#[test]
fn the_refusal_cache_is_bounded() {
    let limit: Limit = "1/h".parse().unwrap();
    let nodes = TestNodes::new(1);
    for user in 0..80_000_u64 {
        let check = Check::new(CounterId::new(1), user, &limit, 2);
        assert!(!nodes.take(0, &check).allowed);
    }
    assert!(nodes.nodes[0].refusals.len() <= 1 << 16);
}
