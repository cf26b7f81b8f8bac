//! Asking the operating system to report changes of a path.
//!
//! Never of the file itself: an editor that saves by renaming, and a ConfigMap whose links are
//! exchanged, leave the watched file behind unchanged. Folders are watched instead, those that the
//! path names and those that its links lead to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::disk::folder_of;

pub(super) struct Watch {
    path: PathBuf,
    /// None where the system cannot: the interval finds changes too, only later.
    watcher: Option<RecommendedWatcher>,
    /// What is watched, and where it led to when it was.
    folders: BTreeMap<PathBuf, PathBuf>,
}

impl Watch {
    pub(super) fn new(path: PathBuf, wake: SyncSender<()>) -> Watch {
        let report = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| !is_reading(event.kind)) {
                let _ = wake.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(report)
            .inspect_err(|error| tracing::warn!(%error, "changes of rules are found by polling"))
            .ok();
        Watch { path, watcher, folders: BTreeMap::new() }
    }

    /// Watches what the path leads to now; links may have changed since.
    pub(super) fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted = folders(&self.path);
        let stale: Vec<PathBuf> = (self.folders.iter())
            .filter(|(folder, led_to)| wanted.get(*folder) != Some(led_to))
            .map(|(folder, _)| folder.clone())
            .collect();
        for folder in stale {
            self.folders.remove(&folder);
            // Gone with what it watched, more often than not.
            let _ = watcher.unwatch(&folder);
        }
        for (folder, leads_to) in wanted {
            if self.folders.contains_key(&folder) {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.folders.insert(folder, leads_to)),
                Err(error) => {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "changes here are found by polling");
                }
            }
        }
    }
}

/// The folders in which a change may change what a path leads to, with where they lead to.
fn folders(path: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let mut folders = BTreeMap::new();
    let mut add = |folder: &Path| {
        if let Ok(leads_to) = fs::canonicalize(folder) {
            folders.insert(folder.to_owned(), leads_to);
        }
    };
    add(folder_of(path));
    if let Ok(target) = fs::canonicalize(path) {
        add(folder_of(&target));
        if target.is_dir() {
            add(path);
        }
    }
    folders
}

/// We read the files ourselves: being told so would have us read them for ever.
fn is_reading(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}
