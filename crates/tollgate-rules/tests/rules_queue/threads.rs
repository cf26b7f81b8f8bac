//! Threads that wait in one queue: no wake-up is lost, whenever a request is cancelled.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tollgate_rules::{Request, RuleLimiter};

use crate::support::release;

const THREADS: usize = 4;
const TIMES: usize = 300;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future, or cancels it after some polls.
fn run<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    for _ in 0..polls {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return Some(output),
            Poll::Pending if polls == 1 => return None,
            Poll::Pending => thread::park(),
        }
    }
    None
}

/// Runs requests on several threads; every third one is cancelled at once.
fn run_threads(rule: &str) {
    let rules = format!("rules: [{{ name: r, {rule} }}]").parse().unwrap();
    let limiter = RuleLimiter::new(rules);
    let passed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (limiter, passed) = (&limiter, &passed);
            scope.spawn(move || {
                for time in 0..TIMES {
                    let leaves = (time + number) % 3 == 0;
                    let polls = if leaves { 1 } else { usize::MAX };
                    match run(limiter.admit(&Request::empty()), polls) {
                        Some(decision) => {
                            assert!(decision.allowed, "{decision:?}");
                            passed.fetch_add(usize::from(!leaves), Ordering::Relaxed);
                            thread::yield_now();
                            release(&decision, Duration::from_micros(1));
                        }
                        None => assert!(leaves),
                    }
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), THREADS * TIMES * 2 / 3);
    assert!(limiter.status().queues().is_empty());
}

#[test]
fn threads_share_a_permit() {
    run_threads("limit: 1 concurrent, then: queue 100 up to 1h");
    run_threads("limit: 1 concurrent, then: queue 100 up to 1h lifo");
}

#[test]
fn threads_pass_at_a_rate() {
    run_threads("limit: 10k/s leaky burst 1, then: queue 100 up to 1h");
}
