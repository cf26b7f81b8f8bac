//! Waits for real processes, within a deadline.
#![allow(clippy::disallowed_methods, reason = "waits for real processes, within a deadline")]

use std::thread;
use std::time::{Duration, Instant};

/// The maximum wait, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Calls `done` repeatedly until it returns true, and returns how long that took.
///
/// # Panics
///
/// After half a minute, with the text `what`.
pub fn until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < DEADLINE, "not true after {DEADLINE:?}: {what}");
        thread::park_timeout(PAUSE);
    }
    started.elapsed()
}

/// Calls `ask` repeatedly until it returns a value; `None` after [`DEADLINE`].
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
