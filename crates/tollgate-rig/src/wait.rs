//! Waiting for real processes, within a deadline.
#![allow(clippy::disallowed_methods, reason = "waits for real processes, within a deadline")]

use std::thread;
use std::time::{Duration, Instant};

/// How long anything here may take, also on a machine that has other things to do.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Asks again and again until the answer is yes, and says how long that took.
///
/// # Panics
///
/// After half a minute of noes, with `what` should have come true.
pub fn until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < DEADLINE, "after {DEADLINE:?} still not so: {what}");
        thread::park_timeout(PAUSE);
    }
    started.elapsed()
}

/// Asks until there is an answer; `None` after [`DEADLINE`].
pub(crate) fn answer<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        match ask() {
            Some(answer) => return Some(answer),
            None if started.elapsed() < DEADLINE => thread::park_timeout(PAUSE),
            None => return None,
        }
    }
}
