//! Why rules could not be had from where they come from.

use std::io;
use std::path::PathBuf;

use hyper::StatusCode;

use crate::bundle::BundleError;
use crate::client::ClientError;

/// Why rules could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// They are wrong: every finding, with its place.
    #[error("{0}")]
    Invalid(BundleError),
    /// A file or a folder could not be read.
    #[error("{path}: {error}", path = path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// More than can be rules.
    #[error("{path}: more than {max} bytes", path = path.display())]
    TooLarge {
        /// The file, or the folder.
        path: PathBuf,
        /// What is allowed.
        max: usize,
    },
    /// It changed while it was read, again and again.
    #[error("{path}: changes faster than it can be read", path = .0.display())]
    Restless(PathBuf),
    /// No answer from a URL.
    #[error("{origin}: {error}")]
    Unreachable {
        /// The URL.
        origin: String,
        /// Why.
        error: ClientError,
    },
    /// A URL answered something else than rules.
    #[error("{origin}: {status}{detail}")]
    Refused {
        /// The URL.
        origin: String,
        /// What it answered.
        status: StatusCode,
        /// What to make of it.
        detail: String,
    },
    /// A URL answered with something that cannot be read.
    #[error("{origin}: {why}")]
    Garbled {
        /// The URL.
        origin: String,
        /// What is wrong with it.
        why: String,
    },
    /// The thread that follows could not be started.
    #[error("cannot follow {origin}: {error}")]
    Thread {
        /// What was to be followed.
        origin: String,
        /// Why it cannot be.
        error: io::Error,
    },
}

impl From<BundleError> for SourceError {
    fn from(error: BundleError) -> SourceError {
        SourceError::Invalid(error)
    }
}
