//! Errors of stores.

use std::error::Error;
use std::fmt;

/// The kind of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store did not answer in time. It may or may not have counted the request.
    TimedOut,
    /// The store cannot be reached, or has closed the connection.
    Unreachable,
    /// The store has refused the call: read-only, out of memory, loading, busy or no permission.
    Refused,
    /// The store has failed before and is not called until it has recovered.
    Unavailable,
    /// Any other error.
    Other,
}

impl StoreErrorKind {
    /// All kinds.
    pub const ALL: [StoreErrorKind; 5] = [
        StoreErrorKind::TimedOut,
        StoreErrorKind::Unreachable,
        StoreErrorKind::Refused,
        StoreErrorKind::Unavailable,
        StoreErrorKind::Other,
    ];

    /// Returns whether the call has certainly changed nothing.
    ///
    /// Otherwise it may have been counted, with only its reply lost.
    ///
    /// ```
    /// use tollgate::StoreErrorKind;
    /// assert!(StoreErrorKind::Unavailable.did_nothing());
    /// assert!(!StoreErrorKind::TimedOut.did_nothing());
    /// ```
    pub fn did_nothing(self) -> bool {
        matches!(self, StoreErrorKind::Refused | StoreErrorKind::Unavailable)
    }

    /// Returns the name of the kind in metrics and logs.
    ///
    /// ```
    /// use tollgate::StoreErrorKind;
    /// assert_eq!(StoreErrorKind::Unavailable.as_str(), "resting");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            StoreErrorKind::TimedOut => "timeout",
            StoreErrorKind::Unreachable => "unreachable",
            StoreErrorKind::Refused => "refused",
            StoreErrorKind::Unavailable => "resting",
            StoreErrorKind::Other => "other",
        }
    }
}

/// A store could not decide a call.
///
/// This is not a denial: the caller chooses whether the request passes.
///
/// ```
/// use std::error::Error;
/// use tollgate::StoreError;
/// let error = StoreError::new("redis is unreachable").with_source("connection refused");
/// assert_eq!(error.to_string(), "redis is unreachable");
/// assert_eq!(error.source().unwrap().to_string(), "connection refused");
/// assert_eq!(format!("{error:?}"), "redis is unreachable: connection refused");
/// ```
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error of kind [`Other`](StoreErrorKind::Other).
    ///
    /// `message` states what happened and what to do.
    pub fn new(message: impl Into<String>) -> StoreError {
        StoreError { kind: StoreErrorKind::Other, message: message.into(), source: None }
    }

    /// Sets the kind of the error.
    ///
    /// ```
    /// use tollgate::{StoreError, StoreErrorKind};
    /// let error = StoreError::new("no reply within 50 ms").with_kind(StoreErrorKind::TimedOut);
    /// assert_eq!(error.kind().as_str(), "timeout");
    /// ```
    pub fn with_kind(self, kind: StoreErrorKind) -> StoreError {
        StoreError { kind, ..self }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Sets the cause of the error.
    pub fn with_source(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError { source: Some(source.into()), ..self }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Formats the message and its causes, because `main` prints a returned error with `Debug`.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
