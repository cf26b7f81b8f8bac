//! What a store says when it cannot answer.

use std::error::Error;
use std::fmt;

/// What sort of trouble a store is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It did not answer in time. Whether it counted the request nobody knows.
    TimedOut,
    /// It cannot be reached, or hung up.
    Unreachable,
    /// It answered that it will not: read-only, out of memory, loading, busy, no permission.
    Refused,
    /// It was in trouble a moment ago and is left alone until it is well again.
    Resting,
    /// Anything else.
    Other,
}

impl StoreErrorKind {
    /// Every kind there is.
    pub const ALL: [StoreErrorKind; 5] = [
        StoreErrorKind::TimedOut,
        StoreErrorKind::Unreachable,
        StoreErrorKind::Refused,
        StoreErrorKind::Resting,
        StoreErrorKind::Other,
    ];

    /// Whether the call certainly changed nothing. Otherwise it may have, and only the answer was lost.
    ///
    /// ```
    /// use tollgate::StoreErrorKind;
    /// assert!(StoreErrorKind::Resting.did_nothing());
    /// assert!(!StoreErrorKind::TimedOut.did_nothing());
    /// ```
    pub fn did_nothing(self) -> bool {
        matches!(self, StoreErrorKind::Refused | StoreErrorKind::Resting)
    }

    /// Its name in metrics and logs.
    ///
    /// ```
    /// use tollgate::StoreErrorKind;
    /// assert_eq!(StoreErrorKind::Resting.as_str(), "resting");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            StoreErrorKind::TimedOut => "timeout",
            StoreErrorKind::Unreachable => "unreachable",
            StoreErrorKind::Refused => "refused",
            StoreErrorKind::Resting => "resting",
            StoreErrorKind::Other => "other",
        }
    }
}

/// The store could not answer. This is not a denial: what happens then is the caller's choice.
///
/// ```
/// use std::error::Error;
/// use tollgate::StoreError;
/// let error = StoreError::new("redis is unreachable").because("connection refused");
/// assert_eq!(error.to_string(), "redis is unreachable");
/// assert_eq!(error.source().unwrap().to_string(), "connection refused");
/// ```
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error that says what went wrong and what to do.
    pub fn new(message: impl Into<String>) -> StoreError {
        StoreError { kind: StoreErrorKind::Other, message: message.into(), source: None }
    }

    /// The same, of a kind.
    ///
    /// ```
    /// use tollgate::{StoreError, StoreErrorKind};
    /// let error = StoreError::new("no answer within 50 ms").of(StoreErrorKind::TimedOut);
    /// assert_eq!(error.kind().as_str(), "timeout");
    /// ```
    pub fn of(self, kind: StoreErrorKind) -> StoreError {
        StoreError { kind, ..self }
    }

    /// What sort of trouble it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// The same with its cause.
    pub fn because(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError { source: Some(source.into()), ..self }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
