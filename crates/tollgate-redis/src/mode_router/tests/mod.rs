//! Several nodes over one backend in memory, with a manual clock and delays.

mod fake_backend;
mod leased;
mod refusal_cache;
mod synced;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};

use tollgate::testing::ManualClock;
use tollgate::{Action, Check, Consistency, CounterId, Limit, Span, StoreCall, Verdict};

use super::ModeRouter;
use fake_backend::{FakeBackend, SharedCounters};

/// A deterministic random generator (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Futures that are polled only when the test says so.
struct UnderWay<'a, T>(Vec<Pin<Box<dyn Future<Output = T> + 'a>>>);

impl<'a, T> UnderWay<'a, T> {
    fn new() -> UnderWay<'a, T> {
        UnderWay(Vec::new())
    }

    fn start(&mut self, future: impl Future<Output = T> + 'a) {
        self.0.push(Box::pin(future));
    }

    /// Polls every future once, and returns the outputs of those that are done.
    fn step(&mut self) -> Vec<T> {
        let mut context = Context::from_waker(Waker::noop());
        let mut done = Vec::new();
        self.0.retain_mut(|future| match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => {
                done.push(output);
                false
            }
            Poll::Pending => true,
        });
        done
    }
}

/// Returns the output of a future that does not wait.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("it waits");
}

/// Several nodes over one backend.
struct TestNodes {
    clock: ManualClock,
    backends: Vec<Arc<FakeBackend>>,
    nodes: Vec<ModeRouter<FakeBackend>>,
}

impl TestNodes {
    fn new(count: u64) -> TestNodes {
        let clock = ManualClock::new();
        let table = Arc::new(SharedCounters::default());
        let backends: Vec<_> =
            (0..count).map(|_| Arc::new(FakeBackend::new(table.clone(), &clock))).collect();
        let modes = |backend: &Arc<FakeBackend>| {
            ModeRouter::new(backend.clone(), Arc::new(AtomicU64::new(count)))
        };
        let nodes = backends.iter().map(modes).collect();
        TestNodes { clock, backends, nodes }
    }

    /// Returns the number of calls to the backend.
    fn calls(&self) -> u64 {
        self.backends.iter().map(|backend| backend.calls()).sum()
    }

    fn run(&self, node: usize, action: Action, check: &Check<'_>) -> Verdict {
        let call = StoreCall { action, checks: std::slice::from_ref(check) };
        ready(self.nodes[node].run(call)).unwrap()[0]
    }

    fn take(&self, node: usize, check: &Check<'_>) -> Verdict {
        self.run(node, TAKE, check)
    }
}

const TAKE: Action = Action::Take { max_wait: Span::ZERO };

fn check<'a>(limit: &'a Limit, cost: u64, consistency: Consistency) -> Check<'a> {
    Check { consistency, ..Check::new(CounterId::new(1), "ann", limit, cost) }
}
