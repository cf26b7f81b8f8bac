//! Replacing rules is atomic: every decision uses either the old rules or the new ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tollgate_rules::{Request, RuleLimiter, Rules};
use tollgate_server::sources::Target;

#[test]
fn a_decision_sees_the_old_rules_or_the_new_ones() {
    let set = |letter: char| -> Rules {
        let rule = |number| format!("  - {{ name: {letter}{number}, limit: 1M/s }}\n");
        format!("rules:\n{}", (0..8).map(rule).collect::<String>()).parse().unwrap()
    };
    let (old, new) = (set('a'), set('b'));
    let limiter = RuleLimiter::new(old.clone());
    let (done, seen_old, seen_new) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let read = || {
        while !done.load(Ordering::Relaxed) {
            let decision = limiter.decide_now(&Request::new("GET", "/"));
            let names: Vec<&str> = decision.limits().map(|limit| limit.rule).collect();
            assert_eq!(names.len(), 8, "{names:?}");
            let first = names[0].as_bytes()[0];
            assert!(names.iter().all(|name| name.as_bytes()[0] == first), "{names:?}");
            let seen = if first == b'a' { &seen_old } else { &seen_new };
            seen.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(read);
        }
        let mut swaps = 0;
        // Swaps at least 1,000 times, and until readers have seen both rule sets.
        while swaps < 1000
            || seen_old.load(Ordering::Relaxed) < 100
            || seen_new.load(Ordering::Relaxed) < 100
        {
            swaps += 1;
            let next = if swaps % 2 == 0 { &old } else { &new };
            Target::activate(&limiter, next.clone());
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
}
