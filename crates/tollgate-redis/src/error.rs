//! Errors of the client, with advice on what to do about them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{StoreError, StoreErrorKind};

/// The reason why a store cannot be opened. Waiting does not fix it.
pub struct ConnectError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ConnectError {
    pub(crate) fn new(message: impl Into<String>) -> ConnectError {
        ConnectError { message: message.into(), source: None }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// The reason why a call failed.
#[derive(Clone, Debug)]
pub(crate) enum CallError {
    /// The reply did not arrive in time. The command may have been executed.
    TimedOut { server: Arc<str>, after: Duration },
    /// There is no connection, or it broke. The command may have been executed.
    Unreachable { server: Arc<str>, reason: Arc<str> },
    /// The server refused the command and did not execute it.
    Refused { server: Arc<str>, reply: Arc<str> },
    /// The server is down because of this error. Nothing was sent.
    ServerDown { cause: Arc<CallError> },
}

impl CallError {
    pub(crate) fn unreachable(server: &Arc<str>, reason: impl fmt::Display) -> CallError {
        CallError::Unreachable { server: server.clone(), reason: reason.to_string().into() }
    }

    pub(crate) fn refused(server: &Arc<str>, reply: impl fmt::Display) -> CallError {
        CallError::Refused { server: server.clone(), reply: reply.to_string().into() }
    }

    /// Returns the kind, which names the error in metrics and logs.
    pub(crate) fn kind(&self) -> StoreErrorKind {
        match self {
            CallError::TimedOut { .. } => StoreErrorKind::TimedOut,
            CallError::Unreachable { .. } => StoreErrorKind::Unreachable,
            CallError::Refused { .. } => StoreErrorKind::Refused,
            CallError::ServerDown { .. } => StoreErrorKind::Unavailable,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::TimedOut { server, after } => write!(
                f,
                "redis at {server} did not answer within {after:?}: see what keeps it busy \
                 (SLOWLOG GET), or allow more time"
            ),
            CallError::Unreachable { server, reason } => {
                write!(f, "redis at {server} cannot be reached: {reason}")
            }
            CallError::Refused { server, reply } => {
                write!(f, "redis at {server} answered {reply:?}{}", advice(reply))
            }
            CallError::ServerDown { cause } => {
                write!(f, "{cause} (no command is sent until a probe succeeds)")
            }
        }
    }
}

impl Error for CallError {}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> StoreError {
        StoreError::new(error.to_string()).with_kind(error.kind())
    }
}

/// Returns what to do about a reply, by its first word.
fn advice(reply: &str) -> &'static str {
    match reply.split_whitespace().next().unwrap_or_default() {
        "NOAUTH" => ": write the user and the password in its address, redis://user:password@…",
        "WRONGPASS" => ": the user or the password in its address is wrong",
        "NOPERM" => ": grant the user the commands that tollgate needs",
        "READONLY" => ": it is a replica; name its master, or its sentinels (redis+sentinel://…)",
        "OOM" => ": give it more memory (maxmemory)",
        "MISCONF" => ": it cannot save its data; see its log",
        "NOREPLICAS" => ": too few of its replicas are connected (min-replicas-to-write)",
        "LOADING" => ": it is loading its data; wait until it is done",
        "MASTERDOWN" => ": it is a replica without its master; name the master",
        "BUSY" => ": a script blocks it; end it with SCRIPT KILL or FUNCTION KILL",
        "CLUSTERDOWN" => ": the cluster lacks nodes; see CLUSTER INFO",
        "MOVED" | "ASK" => ": it belongs to a cluster; write redis+cluster://…",
        "ERR" if reply.contains("ACL failure") => advice("NOPERM"),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let server: Arc<str> = "cache:6379".into();
        let refused = CallError::refused(&server, "OOM command not allowed");
        let after = Duration::from_millis(50);
        let late = CallError::TimedOut { server: server.clone(), after };
        for (error, kind, part) in [
            (refused.clone(), "refused", "(maxmemory)"),
            (late, "timeout", "cache:6379 did not answer within 50ms"),
            (
                CallError::unreachable(&server, "refused"),
                "unreachable",
                "cannot be reached: refused",
            ),
            (
                CallError::ServerDown { cause: Arc::new(refused) },
                "resting",
                "until a probe succeeds",
            ),
        ] {
            let error = StoreError::from(error);
            assert_eq!(error.kind().as_str(), kind);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
