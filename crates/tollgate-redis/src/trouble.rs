//! What goes wrong between here and a server, and what to do about it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{StoreError, StoreErrorKind};

/// Why a store cannot be opened: what is wrong will not mend by waiting.
#[derive(Debug)]
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

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// It came too late or never. Whether the command was executed nobody knows.
    TimedOut { server: Arc<str>, after: Duration },
    /// No connection, or it broke. What was under way may have been executed.
    Unreachable { server: Arc<str>, why: Arc<str> },
    /// The server answered that it will not. The command was not executed.
    Refused { server: Arc<str>, reply: Arc<str> },
    /// The server was in that trouble a moment ago: nothing was sent.
    Resting { because: Arc<Trouble> },
}

impl Trouble {
    pub(crate) fn unreachable(server: &Arc<str>, why: impl fmt::Display) -> Trouble {
        Trouble::Unreachable { server: server.clone(), why: why.to_string().into() }
    }

    pub(crate) fn refused(server: &Arc<str>, reply: impl fmt::Display) -> Trouble {
        Trouble::Refused { server: server.clone(), reply: reply.to_string().into() }
    }

    /// Its name in metrics and logs.
    pub(crate) fn kind(&self) -> StoreErrorKind {
        match self {
            Trouble::TimedOut { .. } => StoreErrorKind::TimedOut,
            Trouble::Unreachable { .. } => StoreErrorKind::Unreachable,
            Trouble::Refused { .. } => StoreErrorKind::Refused,
            Trouble::Resting { .. } => StoreErrorKind::Resting,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::TimedOut { server, after } => write!(
                f,
                "redis at {server} did not answer within {after:?}: see what keeps it busy \
                 (SLOWLOG GET), or allow more time"
            ),
            Trouble::Unreachable { server, why } => {
                write!(f, "redis at {server} cannot be reached: {why}")
            }
            Trouble::Refused { server, reply } => {
                write!(f, "redis at {server} answered {reply:?}{}", advice(reply))
            }
            Trouble::Resting { because } => write!(f, "{because} (left alone until it is well)"),
        }
    }
}

impl Error for Trouble {}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> StoreError {
        StoreError::new(trouble.to_string()).of(trouble.kind())
    }
}

/// What to do about a reply, by the word it starts with.
fn advice(reply: &str) -> &'static str {
    match reply.split_whitespace().next().unwrap_or_default() {
        "NOAUTH" => ": write the user and the password in its address, redis://user:password@…",
        "WRONGPASS" => ": the user or the password in its address is wrong",
        "NOPERM" => ": give the user the rights that tollgate needs",
        "READONLY" => ": it is a replica; name its master, or its sentinels (redis+sentinel://…)",
        "OOM" => ": give it more memory (maxmemory)",
        "MISCONF" => ": it cannot save its data; see its log",
        "NOREPLICAS" => ": too few of its replicas are there (min-replicas-to-write)",
        "LOADING" => ": it is reading its data and will be ready by itself",
        "MASTERDOWN" => ": it is a replica that lost its master; name the master",
        "BUSY" => ": a script keeps it busy; SCRIPT KILL or FUNCTION KILL ends that",
        "CLUSTERDOWN" => ": the cluster misses nodes; see CLUSTER INFO",
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
        let refused = Trouble::refused(&server, "OOM command not allowed");
        let after = Duration::from_millis(50);
        let late = Trouble::TimedOut { server: server.clone(), after };
        for (trouble, kind, part) in [
            (refused.clone(), "refused", "(maxmemory)"),
            (late, "timeout", "cache:6379 did not answer within 50ms"),
            (Trouble::unreachable(&server, "refused"), "unreachable", "cannot be reached: refused"),
            (Trouble::Resting { because: Arc::new(refused) }, "resting", "left alone"),
        ] {
            let error = StoreError::from(trouble);
            assert_eq!(error.kind().as_str(), kind);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
