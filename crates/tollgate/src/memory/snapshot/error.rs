//! The reasons why a snapshot cannot be read.

use std::error::Error;
use std::{fmt, io};

use super::header::VERSION;

/// The reason why a snapshot cannot be read.
#[non_exhaustive]
pub enum SnapshotError {
    /// The file cannot be read.
    Io(io::Error),
    /// The file is not a snapshot.
    NotASnapshot,
    /// A newer version of tollgate has written the snapshot.
    NewerVersion(u32),
    /// The snapshot is damaged: the reason completes "the snapshot is damaged: …".
    Corrupt(&'static str),
    /// The snapshot was written by a build that hashes keys differently, so no key would be found.
    ForeignHash,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(error) => write!(f, "the snapshot cannot be read: {error}"),
            SnapshotError::NotASnapshot => f.write_str("the file is not a snapshot"),
            SnapshotError::NewerVersion(version) => write!(
                f,
                "the snapshot has format {version}, but this version of tollgate reads formats up \
                 to {VERSION}"
            ),
            SnapshotError::Corrupt(reason) => write!(f, "the snapshot is damaged: {reason}"),
            SnapshotError::ForeignHash => {
                f.write_str("the snapshot was written by a build that hashes keys differently")
            }
        }
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for SnapshotError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SnapshotError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotError::Corrupt("it ends too early"),
            _ => SnapshotError::Io(error),
        }
    }
}
