//! Follows files of keys: each is read again when it changes, and stays in use if it is invalid.

use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::background::{self, BackgroundWorker};
use crate::net::Drain;

/// The interval at which files are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Something that a file describes.
pub(super) trait FollowedFile: Send + Sync + 'static {
    fn path(&self) -> &Path;

    /// Returns what the file contains, for messages.
    fn content(&self) -> &'static str;

    /// Reads the file again. An error changes nothing.
    fn read_again(&self) -> Result<(), String>;

    /// Reads the file again, and logs an error.
    fn reload(&self) {
        if let Err(error) = self.read_again() {
            let content = self.content();
            tracing::error!(%error, "cannot reload {content}; the previous ones stay in use");
        }
    }
}

/// What a change of a file changes.
type FileStamp = (u64, u64, i64, i64, u64);

fn stamp(path: &Path) -> Option<FileStamp> {
    let of =
        |file: Metadata| (file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.size());
    fs::metadata(path).ok().map(of)
}

/// Follows a file until the server drains, or nothing uses it any more.
pub(super) fn follow<F: FollowedFile>(followed: &Arc<F>, drain: &Drain) {
    let (weak, drain): (Weak<F>, Drain) = (Arc::downgrade(followed), drain.clone());
    let first = stamp(followed.path());
    background::spawn_restarting(BackgroundWorker::IdentityFile, move || {
        look_again(weak.clone(), first, drain.clone())
    });
}

/// Reads a file again whenever its stamp differs from the one that was read `before`.
async fn look_again<F: FollowedFile>(weak: Weak<F>, mut before: Option<FileStamp>, drain: Drain) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = drain.closing() => return,
        }
        let Some(followed) = weak.upgrade() else { return };
        background::panic_point(BackgroundWorker::IdentityFile);
        let look = move || {
            let now = stamp(followed.path());
            // A missing file is being replaced; the next look finds it.
            if now.is_some() && now != before {
                followed.reload();
                return now;
            }
            before
        };
        before = tokio::task::spawn_blocking(look).await.unwrap_or(before);
    }
}

/// Reads a file of bounded size.
pub(super) fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let mut content = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
    match content.len() as u64 > MAX_FILE_BYTES {
        true => Err(format!("{} has more than {MAX_FILE_BYTES} bytes", path.display())),
        false => Ok(content),
    }
}
