//! A watcher that reports changes of a path by means of the operating system.
//!
//! The watcher watches folders, never the file itself: an editor that saves by renaming, and a ConfigMap
//! whose links are replaced, leave the watched file unchanged. The folders are the parent of the
//! path and the targets of its links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::disk::parent_folder;

pub(super) struct PathWatcher {
    path: PathBuf,
    /// `None` if the system cannot watch; polling finds changes later.
    watcher: Option<RecommendedWatcher>,
    /// The watched folders with their canonical paths.
    folders: BTreeMap<PathBuf, PathBuf>,
}

impl PathWatcher {
    pub(super) fn new(path: PathBuf, wake: SyncSender<()>) -> PathWatcher {
        let report = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| !is_read_access(event.kind)) {
                let _ = wake.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(report)
            .inspect_err(|error| tracing::warn!(%error, "cannot watch files; changes of rules are found by polling"))
            .ok();
        PathWatcher { path, watcher, folders: BTreeMap::new() }
    }

    /// Updates the watched folders, because links may have changed.
    pub(super) fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted = folders(&self.path);
        let stale: Vec<PathBuf> = (self.folders.iter())
            .filter(|(folder, led_to)| wanted.get(*folder) != Some(led_to))
            .map(|(folder, _)| folder.clone())
            .collect();
        for folder in stale {
            self.folders.remove(&folder);
            // The folder often no longer exists, so that errors are ignored.
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
                    tracing::warn!(%folder, %error, "cannot watch the folder; its changes are found by polling");
                }
            }
        }
    }
}

/// Returns the folders whose changes can affect a path, with their canonical paths.
fn folders(path: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let mut folders = BTreeMap::new();
    let mut add = |folder: &Path| {
        if let Ok(leads_to) = fs::canonicalize(folder) {
            folders.insert(folder.to_owned(), leads_to);
        }
    };
    add(parent_folder(path));
    if let Ok(target) = fs::canonicalize(path) {
        add(parent_folder(&target));
        if target.is_dir() {
            add(path);
        }
    }
    folders
}

/// Returns whether an event is a read, such as our own, which must not trigger another read.
fn is_read_access(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}
