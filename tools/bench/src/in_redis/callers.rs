//! Concurrent callers on one thread, each making one decision after the other.
#![allow(clippy::disallowed_methods, reason = "measures latency")]

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;

use super::sample::CallerStats;
use super::subject::RedisSubject;

/// The number of concurrent callers.
pub(crate) const IN_FLIGHT: usize = 200;

/// How long callers continue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    /// One decision for every key.
    AllKeys,
    /// Decisions for a given time.
    Time(Duration),
}

/// The decisions after which a caller yields, as one that reads from a socket would.
///
/// A caller that need not wait for Redis would never yield otherwise.
const TURN: usize = 16;

/// Makes decisions about `keys`; callers are distributed over `nodes`.
pub(crate) async fn drive(
    nodes: &[RedisSubject],
    keys: &[String],
    amount: Amount,
) -> Result<CallerStats, String> {
    let histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3);
    let histogram = &RefCell::new(histogram.map_err(|error| error.to_string())?);
    let (started_count, allowed) = (Cell::new(0), &Cell::new(0_u64));
    let (cpu, started) = (ProcessTime::now(), Instant::now());
    let next = &|| {
        let turn: usize = started_count.replace(started_count.get() + 1);
        match amount {
            Amount::AllKeys => keys.get(turn),
            Amount::Time(time) if started.elapsed() < time => Some(&keys[turn % keys.len()]),
            Amount::Time(_) => None,
        }
    };
    let caller = |number: usize| async move {
        let node = &nodes[number % nodes.len()];
        for turn in 1.. {
            let Some(key) = next() else { break };
            let before = Instant::now();
            let passed = node.allows(key).await?;
            histogram.borrow_mut().saturating_record(before.elapsed().as_nanos() as u64);
            allowed.set(allowed.get() + u64::from(passed));
            if turn % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok::<(), String>(())
    };
    try_join_all((0..IN_FLIGHT).map(caller)).await?;
    let (seconds, client) = (started.elapsed().as_secs_f64(), Some(cpu.elapsed()));
    let histogram = histogram.borrow();
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Ok(CallerStats {
        decisions: histogram.len() as f64,
        allowed: allowed.get() as f64,
        seconds,
        p50_us: at(0.5),
        p99_us: at(0.99),
        client,
    })
}
