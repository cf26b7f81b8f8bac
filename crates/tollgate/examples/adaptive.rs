//! An adaptive limit finds out how many requests a service can handle at once.
//!
//! The stub has 12 workers that take 20 ms for a request; a request that finds no idle worker is
//! queued. The limit may be anything from 2 to 50, and the clients always send more. It grows until
//! a queue shows in the latency, and stays where all workers are busy and no request is queued for
//! longer than 20 ms. Runs a minute of virtual time and prints the limit:
//!
//! ```text
//! after  1 s: 20 at a time, 40 ms each
//! after  3 s: 19 at a time, 40 ms each
//! after  5 s: 19 at a time, 40 ms each
//! after 10 s: 19 at a time, 40 ms each
//! after 20 s: 19 at a time, 40 ms each
//! after 60 s: 19 at a time, 40 ms each
//! ```

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate::{Limiter, Permit};

const WORKERS: usize = 12;
const SERVICE_MS: u64 = 20;

/// The millisecond at which each worker is idle again, and the requests in flight.
#[derive(Default)]
struct Service {
    idle_at: [u64; WORKERS],
    in_flight: Vec<(u64, Permit)>,
}

impl Service {
    /// Assigns the request to the worker that is idle first; returns its latency.
    fn begin(&mut self, now_ms: u64, permit: Permit) -> u64 {
        let idle_at = self.idle_at.iter_mut().min().expect("there are workers");
        *idle_at = now_ms.max(*idle_at) + SERVICE_MS;
        self.in_flight.push((*idle_at, permit));
        *idle_at - now_ms
    }

    /// Drops the permits of finished requests, which reports their latency to the limit.
    fn finish(&mut self, now_ms: u64) {
        self.in_flight.retain(|(done, _)| *done > now_ms);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let limiter =
        Limiter::builder().limit("adaptive 2..50 concurrent".parse()?).clock(&clock).build();
    let mut service = Service::default();
    let mut latency_ms = 0;
    for now_ms in 0..=60_000 {
        service.finish(now_ms);
        while let Ok(permit) = limiter.acquire() {
            latency_ms = service.begin(now_ms, permit);
        }
        if [1, 3, 5, 10, 20, 60].map(|s| s * 1_000).contains(&now_ms) {
            let (secs, limit) = (now_ms / 1_000, limiter.peek().limit);
            println!("after {secs:2} s: {limit:2} at a time, {latency_ms} ms each");
        }
        clock.advance(Duration::from_millis(1));
    }
    let found = limiter.peek().limit;
    assert!(found >= WORKERS as u64, "no worker is idle");
    assert!(latency_ms <= SERVICE_MS * 2, "no request is queued for longer than 20 ms");
    Ok(())
}
