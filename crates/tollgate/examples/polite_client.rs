//! A client that never exceeds what an upstream allows, however many threads it has.
//!
//! The upstream takes 20 requests in each window of 100 ms. Our four threads share a limiter and
//! wait for it before each request: evenly spaced (`burst 1`), and with a margin. Of 160 a second,
//! 16 are due in a window; besides those, each thread may send one that was due before and was
//! delayed by the scheduler or the network. 16 + 4 is what the upstream allows, so it can never be
//! more. Takes 0.6 s and prints:
//!
//! ```text
//! 100 requests by 4 threads in 7 windows,
//! at most 16 in one (20 allowed)
//! ```

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use tollgate::{Clock, Limiter};

const THREADS: usize = 4;
const REQUESTS: usize = 25;
const WINDOW_NS: u64 = 100_000_000;
const ALLOWED: usize = 20;

/// A stub of the upstream service that counts the requests of every window.
struct Upstream {
    clock: Clock,
    windows: Mutex<BTreeMap<u64, usize>>,
}

impl Upstream {
    fn request(&self) {
        let mut windows = self.windows.lock().expect("no thread panics");
        let window = self.clock.now().as_nanos() / WINDOW_NS;
        *windows.entry(window).or_default() += 1;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let upstream = Upstream { clock: Clock::system(), windows: Mutex::default() };
    let turn = Limiter::new("160/s burst 1".parse()?);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..REQUESTS {
                    turn.blocking_wait();
                    upstream.request();
                }
            });
        }
    });
    let windows = upstream.windows.into_inner()?;
    let total: usize = windows.values().sum();
    let most = windows.values().copied().max().unwrap_or_default();
    let count = windows.len();
    println!("{total} requests by {THREADS} threads in {count} windows,");
    println!("at most {most} in one ({ALLOWED} allowed)");
    assert_eq!(total, THREADS * REQUESTS);
    assert!(most <= ALLOWED);
    Ok(())
}
