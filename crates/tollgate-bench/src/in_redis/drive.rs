//! Decisions one after the other from so many callers at once, on one thread.
#![allow(clippy::disallowed_methods, reason = "measures how long answers take")]

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;

use super::sample::Asked;
use super::subject::Subject;

/// How many callers wait for an answer at any time.
pub(crate) const IN_FLIGHT: usize = 200;

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    /// Once for every key.
    Keys,
    /// Some keys, for so long.
    Time(Duration),
}

/// Decisions after which a caller lets others have their turn, as one who reads from a socket does:
/// those who need not ask Redis wait for nothing.
const TURN: usize = 16;

/// Asks about `keys`; callers share `nodes` among them.
pub(crate) async fn drive(
    nodes: &[Subject],
    keys: &[String],
    amount: Amount,
) -> Result<Asked, String> {
    let histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3);
    let histogram = &RefCell::new(histogram.map_err(|error| error.to_string())?);
    let (asked, allowed) = (Cell::new(0), &Cell::new(0_u64));
    let (cpu, started) = (ProcessTime::now(), Instant::now());
    let next = &|| {
        let turn: usize = asked.replace(asked.get() + 1);
        match amount {
            Amount::Keys => keys.get(turn),
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
    Ok(Asked {
        decisions: histogram.len() as f64,
        allowed: allowed.get() as f64,
        seconds,
        p50_us: at(0.5),
        p99_us: at(0.99),
        client,
    })
}
