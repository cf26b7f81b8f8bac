//! Following a file or a folder: changes are reported by the operating system, and looked for at
//! intervals in case they are not.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use super::follower::Wake;
use super::origin::First;
use super::set::{CurrentSet, Update};
use super::status::Shared;
use super::watch::Watch;
use super::{Follower, SourceError, Target, files};
use crate::bundle::Bundle;
use crate::digest;

/// Editors and deployments change files in several steps: look once they have been quiet so long.
const QUIET: Duration = Duration::from_millis(30);
/// But not later than after so many steps.
const STEPS: usize = 30;

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
    ) -> Result<(PathSource, First), SourceError> {
        let source = PathSource { path, every, watched };
        let (bundle, version) = source.read()?;
        let (set, rules) = CurrentSet::first(&bundle, version)?;
        Ok((source, First { set, rules, instead_of: None, copy_error: None }))
    }

    fn read(&self) -> Result<(Bundle, String), SourceError> {
        let bundle = Bundle::of_sources(files::read(&self.path)?);
        let version = digest::short(&bundle.digest_of_files()).to_owned();
        Ok((bundle, version))
    }

    pub(super) fn follow(self, set: CurrentSet, shared: Shared, target: impl Target) -> Follower {
        // One place is enough: a wake-up that finds another one waiting has nothing to add.
        let (sender, wakes) = mpsc::sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let wake = {
            let (sender, stop) = (sender.clone(), stop.clone());
            move |wake| {
                if wake == Wake::Stop {
                    stop.store(true, Ordering::Release);
                }
                let _ = sender.try_send(());
            }
        };
        let body = {
            let shared = shared.clone();
            move || Following { source: self, set, shared, target }.run(sender, &wakes, &stop)
        };
        Follower::start(shared, wake, body)
    }
}

struct Following<T> {
    source: PathSource,
    set: CurrentSet,
    shared: Shared,
    target: T,
}

impl<T: Target> Following<T> {
    fn run(mut self, sender: SyncSender<()>, wakes: &Receiver<()>, stop: &AtomicBool) {
        let watched = self.source.watched;
        let mut watch = watched.then(|| Watch::new(self.source.path.clone(), sender));
        // What changed since it was opened was not watched yet: look at once.
        loop {
            if stop.load(Ordering::Acquire) {
                return;
            }
            if let Some(watch) = &mut watch {
                watch.renew();
            }
            self.look();
            match wakes.recv_timeout(self.source.every) {
                Ok(()) => quieten(wakes, stop),
                Err(RecvTimeoutError::Timeout) => {}
                // The watch holds a sender, unless there is none: then this thread does nothing
                // but wait.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look(&mut self) {
        let outcome = self.source.read().and_then(|(bundle, version)| {
            if version == self.set.version {
                return Ok(None);
            }
            self.set.next(&bundle, version).map(Some)
        });
        // Installed before it is recorded: who sees the version finds the rules in force.
        if let Ok(Some(Update { rules, .. })) = &outcome {
            self.target.install(rules.clone());
        }
        self.shared.record(&outcome);
    }
}

fn quieten(wakes: &Receiver<()>, stop: &AtomicBool) {
    for _ in 0..STEPS {
        if stop.load(Ordering::Acquire) || wakes.recv_timeout(QUIET).is_err() {
            return;
        }
    }
}
