//! A check: a guarantee, how it is measured, and within what time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tollgate::{Clock, Time};

use super::measurement::Measurement;
use super::workspace::Workspace;

/// A check of one or several guarantees.
pub(super) struct VerifyCheck {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The numbers of the guarantees in `docs/guarantees.md`.
    pub(super) guarantees: &'static [u8],
    /// The guarantee in one line.
    pub(super) title: &'static str,
    /// The maximum time of the check; after that, it is stopped.
    pub(super) time_limit: Duration,
    pub(super) run: fn(&CheckContext) -> anyhow::Result<CheckRun>,
}

/// The result of a check that ran without an error.
#[derive(Debug)]
pub(super) enum CheckRun {
    Measured(Vec<Measurement>),
    /// The check cannot run here: why, and what to do about it.
    Skipped(String),
}

/// The settings and the tools of a check.
#[derive(Clone)]
pub(super) struct CheckContext {
    /// The binary whose server is checked.
    pub(super) program: PathBuf,
    /// Whether to measure less, in less time.
    pub(super) quick: bool,
    /// The address of a store, if one is given.
    pub(super) store: Option<StoreAddress>,
    /// The folder and the child processes of the check.
    pub(super) workspace: Arc<Workspace>,
    pub(super) progress: ProgressBar,
    pub(super) clock: Clock,
}

/// The address of a store, which may contain a password and is never printed as a whole.
#[derive(Clone)]
pub(super) struct StoreAddress(String);

impl StoreAddress {
    pub(super) fn new(address: &str) -> StoreAddress {
        StoreAddress(address.to_owned())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreAddress(…)")
    }
}

impl CheckContext {
    /// Returns the amount for this run: all of it, or that of a quick run.
    pub(super) fn amount<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Shows what the check does now.
    pub(super) fn step(&self, step: impl Into<String>) {
        self.progress.set_message(step.into());
        self.progress.tick();
    }

    pub(super) fn stopwatch(&self) -> Stopwatch {
        Stopwatch { clock: self.clock.clone(), start: self.clock.now() }
    }
}

/// The time since a moment.
#[derive(Clone)]
pub(super) struct Stopwatch {
    clock: Clock,
    start: Time,
}

impl Stopwatch {
    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.clock.now().since(self.start).as_nanos())
    }
}

/// Waits until a condition holds; returns whether it did in time.
pub(super) fn wait_until(
    context: &CheckContext,
    time_limit: Duration,
    mut condition: impl FnMut() -> bool,
) -> bool {
    let watch = context.stopwatch();
    while !condition() {
        if watch.elapsed() > time_limit {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}
