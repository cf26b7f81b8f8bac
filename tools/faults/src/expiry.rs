//! A million operations race against expiry and killed connections: no key may stay for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{Action, Check, CounterId, Limit, Span, Store, StoreCall};
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::Redis;

const OPERATIONS: u64 = 1_000_000;
const CALLERS: u64 = 64;
const KEYS: u64 = 200;

/// Every kind of limit, with states that expire all the time.
const LIMITS: [&str; 7] = [
    "3/5ms",
    "7/3ms burst 9 initial 2",
    "5/4ms fixed",
    "5/4ms sliding",
    "5/6ms log",
    "5/5ms warmup 5ms",
    "3 concurrent lease 4ms",
];

pub(crate) fn run() -> bool {
    let redis = Redis::start();
    let runtime = Runtime::new().expect("threads can be started");
    let options: Options = redis.url().parse().expect("the rig's address is fine");
    let store = runtime.block_on(RedisStore::connect(options)).expect("nothing to object to");
    let (done, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| runtime.spawn(operate(store.clone(), done.clone(), failed.clone())))
        .collect();
    let mut killed = 0;
    while done.load(Ordering::Relaxed) < OPERATIONS {
        let reply = redis.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        killed += reply.ok().and_then(|reply| reply.int()).unwrap_or(0);
        std::thread::park_timeout(Duration::from_millis(200));
    }
    for caller in callers {
        runtime.block_on(caller).expect("callers do not panic");
    }
    // The count of keys without an expiry time.
    let count = "local n = 0 for _, key in ipairs(redis.call('KEYS', '*')) do \
                 if redis.call('PTTL', key) == -1 then n = n + 1 end end return n";
    let for_ever = redis.command(&["EVAL", count, "0"]).ok().and_then(|reply| reply.int());
    let failed = failed.load(Ordering::Relaxed);
    println!("\nexpiry: {OPERATIONS} operations racing expiry and killed connections");
    println!("  {killed} connections were killed, {failed} operations failed");
    println!("  {for_ever:?} keys without an end");
    let kept = for_ever == Some(0);
    println!("  {}  no key stays for ever", if kept { "kept  " } else { "BROKEN" });
    kept
}

async fn operate(store: RedisStore, done: Arc<AtomicU64>, failed: Arc<AtomicU64>) {
    let limits: Vec<Limit> = LIMITS.iter().map(|text| text.parse().expect("a limit")).collect();
    while done.fetch_add(1, Ordering::Relaxed) < OPERATIONS {
        let kind = fastrand::usize(..limits.len());
        let check =
            Check::new(CounterId::new(kind as u64), fastrand::u64(..KEYS), &limits[kind], 1);
        let check = Check { lease: fastrand::u64(..), ..check };
        let action = match fastrand::u8(..8) {
            0 => Action::Spend,
            1 => Action::Refund,
            2 => Action::Reset,
            _ => Action::Take { max_wait: Span::ZERO },
        };
        if store.run(StoreCall { action, checks: &[check] }).await.is_err() {
            failed.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
