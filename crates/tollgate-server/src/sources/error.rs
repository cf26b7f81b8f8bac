//! Errors of rule sources.

use std::io;
use std::path::PathBuf;

use hyper::StatusCode;

use crate::bundle::BundleError;
use crate::client::ClientError;

/// The reason why a source did not deliver valid rules.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The rules are invalid; the error lists every finding with its position.
    #[error("{0}")]
    Invalid(BundleError),
    /// A file or a folder could not be read.
    #[error("{path}: {error}", path = path.display())]
    Unreadable {
        /// The path of the file or folder.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// The files are too large.
    #[error("{path}: more than {max} bytes", path = path.display())]
    TooLarge {
        /// The path of the file or folder.
        path: PathBuf,
        /// The maximum size.
        max: usize,
    },
    /// The folder changed during every attempt to read it.
    #[error("{path}: changes faster than it can be read", path = .0.display())]
    Unstable(PathBuf),
    /// The URL sent no response.
    #[error("{origin}: {error}")]
    Unreachable {
        /// The URL.
        origin: String,
        /// The error of the HTTP client.
        error: ClientError,
    },
    /// The URL answered with an unexpected status.
    #[error("{origin}: {status}{detail}")]
    Refused {
        /// The URL.
        origin: String,
        /// The status of the response.
        status: StatusCode,
        /// Advice for the user.
        detail: String,
    },
    /// The response of the URL is malformed.
    #[error("{origin}: {reason}")]
    Malformed {
        /// The URL.
        origin: String,
        /// The mistake.
        reason: String,
    },
    /// The thread that follows the origin cannot be started.
    #[error("cannot follow {origin}: {error}")]
    Thread {
        /// The path or the URL.
        origin: String,
        /// The I/O error.
        error: io::Error,
    },
}

impl From<BundleError> for SourceError {
    fn from(error: BundleError) -> SourceError {
        SourceError::Invalid(error)
    }
}
