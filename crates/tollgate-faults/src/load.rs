//! A steady load on a store, and what became of every call.
#![allow(clippy::disallowed_methods, reason = "measures real calls")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tollgate::{Action, Bucket, Call, Check, Limit, Span, Store, StoreErrorKind};
use tollgate_redis::{Options, RedisStore};

/// Callers at a time.
const CALLERS: u64 = 16;
/// Keys they ask for, spread over the slots of a cluster.
const KEYS: u64 = 64;
/// Between two calls of a caller.
const PAUSE: Duration = Duration::from_millis(1);

/// Never refuses, and never gives back: what is charged can be counted.
fn limit() -> Limit {
    "1000000000/year fixed".parse().expect("it is a limit")
}

/// A call: when it began, how long it took, and what it met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) error: Option<StoreErrorKind>,
}

/// Callers at work.
pub(crate) struct Load {
    runtime: Runtime,
    store: RedisStore,
    started: Instant,
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Vec<Seen>>>,
}

impl Load {
    /// Begins, once the store answers.
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

    /// How long it has been going on.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Lets it go on for a while.
    pub(crate) fn go_on(&self, span: Duration) {
        std::thread::sleep(span);
    }

    /// Ends it: every call, and how much is charged at the store.
    pub(crate) fn end(mut self) -> (Vec<Seen>, Option<u64>) {
        self.stop.store(true, Ordering::Relaxed);
        let callers = std::mem::take(&mut self.callers);
        let seen = callers
            .into_iter()
            .flat_map(|caller| self.runtime.block_on(caller).expect("callers do not panic"));
        let mut seen: Vec<Seen> = seen.collect();
        seen.sort_by_key(|seen| seen.at);
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            match self.total_charged() {
                None if Instant::now() < deadline => std::thread::park_timeout(PAUSE),
                charged => return (seen, charged),
            }
        }
    }

    fn total_charged(&self) -> Option<u64> {
        let limit = limit();
        let mut total = 0;
        for key in 0..KEYS {
            let check = Check::new(Bucket::new(7), key, &limit, 0);
            let call = Call { action: Action::Peek, checks: &[check] };
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
) -> Vec<Seen> {
    let (limit, mut seen, mut key) = (limit(), Vec::new(), caller);
    while !stop.load(Ordering::Relaxed) {
        key = (key + CALLERS + 1) % KEYS;
        let check = Check::new(Bucket::new(7), key, &limit, 1);
        let call = Call { action: Action::Take { max_wait: Span::ZERO }, checks: &[check] };
        let at = started.elapsed();
        let error = store.run(call).await.err().map(|error| error.kind());
        seen.push(Seen { at, took: started.elapsed() - at, error });
        tokio::time::sleep(PAUSE).await;
    }
    seen
}
