//! The snapshot on the disk: replaced atomically, moved aside if it cannot be used.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use tollgate::MemoryStore;
use tollgate::snapshot::{RestoredStore, SnapshotDigest};

use crate::disk;

const NAME: &str = "snapshot";
/// The maximum number of unusable snapshots that are kept for inspection.
const MAX_KEPT: usize = 3;

/// The file of the snapshot in the data folder.
#[derive(Clone, Debug)]
pub(super) struct SnapshotFile(PathBuf);

/// The right to write snapshots in a folder. The system ends it with the process.
#[derive(Debug)]
pub(super) struct SnapshotLock(#[expect(dead_code, reason = "held, not read")] File);

impl SnapshotFile {
    pub(super) fn in_folder(folder: &Path) -> SnapshotFile {
        SnapshotFile(folder.join(NAME))
    }

    pub(super) fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Takes the right to write, unless another process has it.
    pub(super) fn lock(&self) -> io::Result<SnapshotLock> {
        disk::create_private_folder(disk::parent_folder(&self.0))?;
        let file = File::create(self.0.with_extension("lock"))?;
        match file.try_lock() {
            Ok(()) => {
                // Of processes that were killed while they wrote.
                disk::remove_temporary_files(&self.0);
                Ok(SnapshotLock(file))
            }
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "another server writes snapshots in this data folder; give each its own with --data",
            )),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Replaces the snapshot; returns the digest of its content and its size.
    pub(super) fn write(
        &self,
        store: &MemoryStore,
        attachment: &[u8],
    ) -> io::Result<(SnapshotDigest, u64)> {
        disk::replace_private(&self.0, |file| {
            let digest = store.write_snapshot(attachment, &mut *file)?;
            Ok((digest, file.metadata()?.len()))
        })
    }

    /// Fills a store from the snapshot; `None` if there is none, or none that can be used.
    pub(super) fn restore(&self, store: MemoryStore) -> Option<RestoredStore> {
        let file = match File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.move_aside(&error);
                return None;
            }
        };
        let written = file.metadata().and_then(|metadata| metadata.modified()).ok();
        match store.restore(BufReader::with_capacity(1 << 18, file)) {
            Ok(restored) => {
                let age = written.and_then(|at| crate::clock::now().duration_since(at).ok());
                tracing::info!(
                    keys = restored.store.len(),
                    age_s = age.unwrap_or_default().as_secs(),
                    "restored counters from the snapshot"
                );
                Some(restored)
            }
            Err(error) => {
                self.move_aside(&error);
                None
            }
        }
    }

    /// Renames a snapshot that cannot be used, so that it can be inspected.
    ///
    /// The snapshot of another server stays: that may be a newer version, and it still writes.
    fn move_aside(&self, reason: &dyn fmt::Display) {
        if let Err(error) = self.lock()
            && error.kind() == io::ErrorKind::WouldBlock
        {
            tracing::error!(file = %self, %reason, %error, "cannot use the snapshot");
            return;
        }
        let kept = |number: usize| self.0.with_extension(format!("corrupt-{number}"));
        for number in (1..MAX_KEPT).rev() {
            let _ = fs::rename(kept(number), kept(number + 1));
        }
        match fs::rename(&self.0, kept(1)) {
            Ok(()) => tracing::error!(
                file = %self,
                %reason,
                moved_to = %kept(1).display(),
                "cannot use the snapshot; it was moved aside, and all counters start empty"
            ),
            Err(error) => tracing::error!(
                file = %self,
                %reason,
                %error,
                "cannot use the snapshot, and cannot move it aside; all counters start empty"
            ),
        }
    }
}

impl fmt::Display for SnapshotFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_unusable_snapshots_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = SnapshotFile::in_folder(folder.path());
        for round in 0..6 {
            fs::write(&file.0, format!("no snapshot {round}")).unwrap();
            assert!(file.restore(MemoryStore::new()).is_none());
            assert!(!file.exists());
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("snapshot.corrupt-1"), "no snapshot 5");
        assert_eq!(read("snapshot.corrupt-3"), "no snapshot 3");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), MAX_KEPT + 1, "and the lock");
    }

    #[test]
    fn a_snapshot_is_private_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = SnapshotFile::in_folder(folder.path());
        let (_, bytes) = file.write(&MemoryStore::new(), b"more").unwrap();
        let metadata = fs::metadata(&file.0).unwrap();
        assert_eq!(metadata.len(), bytes);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(file.restore(MemoryStore::new()).unwrap().attachment, b"more");
    }

    #[test]
    fn one_process_writes_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = SnapshotFile::in_folder(folder.path());
        let lock = file.lock().unwrap();
        let error = file.lock().unwrap_err();
        assert!(error.to_string().contains("--data"), "{error}");
        fs::write(&file.0, "of a newer version").unwrap();
        assert!(file.restore(MemoryStore::new()).is_none());
        assert!(file.exists(), "it belongs to the process that has the lock");
        drop(lock);
        assert!(file.lock().is_ok());
    }
}
