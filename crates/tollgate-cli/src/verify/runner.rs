//! Runs checks one after the other, each within its time, and cleans up after each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::anyhow;

use super::check::{CheckContext, CheckRun, VerifyCheck};
use super::workspace::{Workspace, lock};
use crate::signals::Signals;

/// The exit code after a signal.
const INTERRUPTED: i32 = 2;

/// The result of one check.
pub(super) struct CheckResult {
    pub(super) check: &'static VerifyCheck,
    pub(super) took: Duration,
    pub(super) outcome: anyhow::Result<CheckRun>,
}

/// The state of a check in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckState {
    Holds,
    Broken,
    Skipped,
    /// The check could not be completed, so it says nothing about the guarantee.
    Failed,
}

impl CheckState {
    pub(super) fn name(self) -> &'static str {
        match self {
            CheckState::Holds => "holds",
            CheckState::Broken => "broken",
            CheckState::Skipped => "skipped",
            CheckState::Failed => "error",
        }
    }
}

impl CheckResult {
    pub(super) fn state(&self) -> CheckState {
        match &self.outcome {
            // A check without a measurement has shown nothing.
            Ok(CheckRun::Measured(all)) if all.is_empty() => CheckState::Failed,
            Ok(CheckRun::Measured(all)) if all.iter().all(|one| one.holds()) => CheckState::Holds,
            Ok(CheckRun::Measured(_)) => CheckState::Broken,
            Ok(CheckRun::Skipped(_)) => CheckState::Skipped,
            Err(_) => CheckState::Failed,
        }
    }
}

/// The workspace of the check that runs, which a signal closes.
#[derive(Clone, Default)]
pub(super) struct CurrentWorkspace(Arc<Mutex<Option<Arc<Workspace>>>>);

impl CurrentWorkspace {
    /// Ends the program on a signal, after closing the workspace.
    pub(super) fn close_on_signal(&self) -> anyhow::Result<()> {
        let current = self.clone();
        let (started, is_started) = channel();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            runtime.block_on(async {
                match Signals::listen() {
                    Err(error) => drop(started.send(Err(error))),
                    Ok(mut signals) => {
                        drop(started.send(Ok(())));
                        signals.next().await;
                        current.close_and_exit();
                    }
                }
            });
        })?;
        Ok(is_started.recv().map_err(|_| anyhow!("cannot listen for signals"))??)
    }

    fn close_and_exit(&self) -> ! {
        // The lock is never released: the check fails now, and must not end the program before all is
        // cleaned up.
        let mut current = lock(&self.0);
        if let Some(workspace) = current.take() {
            workspace.close();
        }
        eprintln!("interrupted: the servers of the checks are stopped, and their files removed");
        std::process::exit(INTERRUPTED)
    }

    fn set(&self, workspace: Option<Arc<Workspace>>) {
        let before = std::mem::replace(&mut *lock(&self.0), workspace);
        if let Some(before) = before {
            before.close();
        }
    }
}

/// Runs a check, within its time.
pub(super) fn run_check(
    check: &'static VerifyCheck,
    context: &CheckContext,
    current: &CurrentWorkspace,
) -> CheckResult {
    let watch = context.stopwatch();
    let outcome = run_in_time(check, context, current);
    current.set(None);
    CheckResult { check, took: watch.elapsed(), outcome }
}

fn run_in_time(
    check: &'static VerifyCheck,
    context: &CheckContext,
    current: &CurrentWorkspace,
) -> anyhow::Result<CheckRun> {
    let workspace = Arc::new(Workspace::default());
    current.set(Some(Arc::clone(&workspace)));
    let context = CheckContext { workspace, ..context.clone() };
    let (sender, result) = channel();
    std::thread::Builder::new().name(check.name.to_owned()).spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| (check.run)(&context)));
        // The receiver is gone if the time is up.
        let _ = sender.send(outcome.unwrap_or_else(|_| Err(anyhow!("the check panicked"))));
    })?;
    result.recv_timeout(check.time_limit).unwrap_or_else(|_| {
        Err(anyhow!("the check took longer than {} s and was stopped", check.time_limit.as_secs()))
    })
}
