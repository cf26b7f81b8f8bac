//! A steady load on a store, with the result of every call.
#![allow(clippy::disallowed_methods, reason = "measures real calls")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tollgate::{Action, Check, CounterId, Limit, Span, Store, StoreCall, StoreErrorKind};
use tollgate_redis::{Options, RedisStore};

/// The number of concurrent callers.
const CALLERS: u64 = 16;
/// The number of keys, spread over the slots of a cluster.
const KEYS: u64 = 64;
/// The pause between two calls of a caller.
const PAUSE: Duration = Duration::from_millis(1);

/// Returns a limit that neither refuses nor refills, so that charges can be counted.
fn limit() -> Limit {
    "1000000000/year fixed".parse().expect("it is a limit")
}

/// A call: its start, its duration and its error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRecord {
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) error: Option<StoreErrorKind>,
}

/// Concurrent callers.
pub(crate) struct Load {
    runtime: Runtime,
    store: RedisStore,
    started: Instant,
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Vec<CallRecord>>>,
}

impl Load {
    /// Starts the callers, once the store answers.
    pub(crate) fn start(url: &str) -> Load {
        let runtime = Runtime::new().expect("threads can be started");
        let options: Options = url.parse().expect("the rig's address is fine");
        let store = runtime.block_on(RedisStore::connect(options)).expect("nothing to object to");
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Load { runtime, store, started: Instant::now(), stop, callers: Vec::new() };
        tollgate_rig::until("the store answers", || load.total_charged().is_some());
        load.started = Instant::now();
        for caller in 0..CALLERS {
            let (store, stop, started) = (load.store.clone(), load.stop.clone(), load.started);
            load.callers.push(load.runtime.spawn(call_on(store, stop, started, caller)));
        }
        load
    }

    /// Returns the time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Keeps the load running for a while.
    pub(crate) fn run_for(&self, span: Duration) {
        std::thread::sleep(span);
    }

    /// Stops the callers. Returns every call, and the total charged at the store.
    pub(crate) fn end(mut self) -> (Vec<CallRecord>, Option<u64>) {
        self.stop.store(true, Ordering::Relaxed);
        let callers = std::mem::take(&mut self.callers);
        let calls = callers
            .into_iter()
            .flat_map(|caller| self.runtime.block_on(caller).expect("callers do not panic"));
        let mut calls: Vec<CallRecord> = calls.collect();
        calls.sort_by_key(|call| call.at);
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            match self.total_charged() {
                None if Instant::now() < deadline => std::thread::park_timeout(PAUSE),
                charged => return (calls, charged),
            }
        }
    }

    fn total_charged(&self) -> Option<u64> {
        let limit = limit();
        let mut total = 0;
        for key in 0..KEYS {
            let check = Check::new(CounterId::new(7), key, &limit, 0);
            let call = StoreCall { action: Action::Peek, checks: &[check] };
            let verdicts = self.runtime.block_on(self.store.run(call)).ok()?;
            total += verdicts[0].limit - verdicts[0].remaining;
        }
        Some(total)
    }
}

async fn call_on(
    store: RedisStore,
    stop: Arc<AtomicBool>,
    started: Instant,
    caller: u64,
) -> Vec<CallRecord> {
    let (limit, mut calls, mut key) = (limit(), Vec::new(), caller);
    while !stop.load(Ordering::Relaxed) {
        key = (key + CALLERS + 1) % KEYS;
        let check = Check::new(CounterId::new(7), key, &limit, 1);
        let call = StoreCall { action: Action::Take { max_wait: Span::ZERO }, checks: &[check] };
        let at = started.elapsed();
        let error = store.run(call).await.err().map(|error| error.kind());
        calls.push(CallRecord { at, took: started.elapsed() - at, error });
        tokio::time::sleep(PAUSE).await;
    }
    calls
}
