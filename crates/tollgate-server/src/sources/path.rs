//! Follows a file or a folder, by change reports of the operating system and by polling.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use super::follower::WakeReason;
use super::origin::InitialRules;
use super::path_watcher::PathWatcher;
use super::set::{CurrentSet, RulesUpdate};
use super::status::SharedStatus;
use super::{Follower, SourceError, Target, files};
use crate::background::{BackgroundWorker, catch_panic};
use crate::bundle::Bundle;
use crate::digest;

/// The time without changes after which files are read, because editors write in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(30);
/// The maximum number of quiet periods to wait.
const MAX_QUIET_PERIODS: usize = 30;

#[derive(Debug)]
pub(super) struct PathSource {
    path: PathBuf,
    every: Duration,
    watched: bool,
}

impl PathSource {
    pub(super) fn open(
        path: PathBuf,
        every: Duration,
        watched: bool,
    ) -> Result<(PathSource, InitialRules), SourceError> {
        let source = PathSource { path, every, watched };
        let (bundle, version) = source.read()?;
        let (set, rules) = CurrentSet::first(&bundle, version)?;
        Ok((source, InitialRules { set, rules, copy_reason: None, copy_error: None }))
    }

    fn read(&self) -> Result<(Bundle, String), SourceError> {
        let bundle = Bundle::from_sources(files::read(&self.path)?);
        let version = digest::short(&bundle.files_digest()).to_owned();
        Ok((bundle, version))
    }

    pub(super) fn follow(
        self,
        set: CurrentSet,
        status: SharedStatus,
        target: impl Target,
    ) -> Follower {
        // A capacity of one is enough, because a second wake-up adds nothing.
        let (sender, wakes) = mpsc::sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let wake = {
            let (sender, stop) = (sender.clone(), stop.clone());
            move |wake| {
                if wake == WakeReason::Stop {
                    stop.store(true, Ordering::Release);
                }
                let _ = sender.try_send(());
            }
        };
        let body = {
            let status = status.clone();
            move || PathFollower { source: self, set, status, target }.run(sender, &wakes, &stop)
        };
        Follower::start(status, wake, body)
    }
}

struct PathFollower<T> {
    source: PathSource,
    set: CurrentSet,
    status: SharedStatus,
    target: T,
}

impl<T: Target> PathFollower<T> {
    fn run(mut self, sender: SyncSender<()>, wakes: &Receiver<()>, stop: &AtomicBool) {
        let watched = self.source.watched;
        let mut watcher = watched.then(|| PathWatcher::new(self.source.path.clone(), sender));
        // Changes since the first read were not watched, so that the loop begins with a read.
        loop {
            if stop.load(Ordering::Acquire) {
                return;
            }
            if let Some(watcher) = &mut watcher {
                watcher.renew();
            }
            self.reload();
            match wakes.recv_timeout(self.source.every) {
                Ok(()) => wait_until_quiet(wakes, stop),
                Err(RecvTimeoutError::Timeout) => {}
                // Without a watcher no sender is left once the follower is dropped.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn reload(&mut self) {
        let outcome = catch_panic(BackgroundWorker::RulesSource, || self.read_and_activate());
        let outcome = outcome.unwrap_or_else(|panic| {
            let (origin, error) = (self.source.path.display().to_string(), io::Error::other(panic));
            Err(SourceError::Thread { origin, error })
        });
        self.status.record(&outcome);
    }

    fn read_and_activate(&mut self) -> Result<Option<RulesUpdate>, SourceError> {
        let (bundle, version) = self.source.read()?;
        if version == self.set.version {
            return Ok(None);
        }
        let update = self.set.next(&bundle, version)?;
        // The rules become active before the version is visible in the status.
        self.target.activate(update.rules.clone());
        Ok(Some(update))
    }
}

fn wait_until_quiet(wakes: &Receiver<()>, stop: &AtomicBool) {
    for _ in 0..MAX_QUIET_PERIODS {
        if stop.load(Ordering::Acquire) || wakes.recv_timeout(QUIET_PERIOD).is_err() {
            return;
        }
    }
}
