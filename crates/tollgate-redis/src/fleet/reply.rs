//! What a server's error replies mean for the one who asked.

use redis::{ServerError, Value};

/// What became of a command.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// It was executed.
    Done(Value),
    /// Not executed: the server does not know the script or the function.
    UnknownScript(String),
    /// Not executed: the server does not know the command, or does not allow it.
    UnknownCommand(String),
    /// Not executed: the slot is kept by another server, at `host:port`.
    Moved(String),
    /// Not executed: the key is already at another server, at `host:port`.
    Ask(String),
    /// Not executed: the slot is on its way.
    TryAgain(String),
    /// Not executed: nobody keeps the slot at the moment.
    ClusterDown(String),
    /// Not executed, and nothing else will be for now.
    Unwell(String),
    /// Not executed, and no other write will be for now.
    NoWrites(String),
    /// An error of another kind.
    Failed(String),
}

impl Reply {
    pub(super) fn of(value: Value) -> Reply {
        match value {
            Value::ServerError(error) => Reply::of_error(&error),
            value => Reply::Done(value),
        }
    }

    /// What the server wrote, for a message.
    pub(super) fn words(&self) -> String {
        match self {
            Reply::Done(value) => format!("{value:?}"),
            Reply::Moved(address) => format!("MOVED {address}"),
            Reply::Ask(address) => format!("ASK {address}"),
            Reply::UnknownScript(text)
            | Reply::UnknownCommand(text)
            | Reply::TryAgain(text)
            | Reply::ClusterDown(text)
            | Reply::Unwell(text)
            | Reply::NoWrites(text)
            | Reply::Failed(text) => text.clone(),
        }
    }

    fn of_error(error: &ServerError) -> Reply {
        let details = error.details().unwrap_or_default();
        let text = words(error);
        // Before Redis 7 what a script was told arrives wrapped: "ERR Error running script (call
        // to f_…): @user_script:1: -OOM command not allowed …".
        let inner = details.split_once(": -").map(|(_, inner)| inner);
        let inner = inner.and_then(|inner| inner.split_whitespace().next()).unwrap_or_default();
        match (error.code(), inner) {
            ("NOSCRIPT", _) => Reply::UnknownScript(text),
            ("ERR", _) if details.starts_with("Function not found") => Reply::UnknownScript(text),
            ("ERR", _) if details.starts_with("unknown command") => Reply::UnknownCommand(text),
            ("ERR", _) if details.starts_with("unknown subcommand") => Reply::UnknownCommand(text),
            ("NOPERM", _) => Reply::UnknownCommand(text),
            ("MOVED", _) => elsewhere(details).map_or(Reply::Failed(text), Reply::Moved),
            ("ASK", _) => elsewhere(details).map_or(Reply::Failed(text), Reply::Ask),
            ("TRYAGAIN", _) => Reply::TryAgain(text),
            ("CLUSTERDOWN", _) => Reply::ClusterDown(text),
            ("LOADING" | "MASTERDOWN" | "BUSY", _) => Reply::Unwell(text),
            ("READONLY" | "OOM" | "MISCONF" | "NOREPLICAS", _) => Reply::NoWrites(text),
            ("ERR", "READONLY" | "OOM" | "MISCONF" | "NOREPLICAS") => {
                let start = text.find(": -").map_or(0, |at| at + 3);
                Reply::NoWrites(text[start..].to_owned())
            }
            _ => Reply::Failed(text),
        }
    }
}

/// What an error says, as the server wrote it.
pub(super) fn words(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default())
}

/// The address in "3999 127.0.0.1:6381".
fn elsewhere(details: &str) -> Option<String> {
    details.split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(line: &str) -> Reply {
        Reply::of(redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap())
    }

    #[test]
    fn replies_that_prove_that_nothing_was_executed_are_told_apart() {
        for line in ["NOSCRIPT No matching script.", "ERR Function not found"] {
            assert_eq!(reply(line), Reply::UnknownScript(line.into()));
        }
        assert_eq!(reply("MOVED 3999 10.0.0.1:6381"), Reply::Moved("10.0.0.1:6381".into()));
        assert_eq!(reply("ASK 3999 :6381"), Reply::Ask(":6381".into()));
        assert!(matches!(reply("MOVED"), Reply::Failed(_)));
        assert!(matches!(reply("TRYAGAIN Multiple keys"), Reply::TryAgain(_)));
        assert!(matches!(reply("CLUSTERDOWN Hash slot not served"), Reply::ClusterDown(_)));
        for line in [
            "ERR unknown command 'FCALL', with args",
            "ERR unknown command `FCALL`, with args",
            "NOPERM this user has no permissions to run the 'fcall' command",
        ] {
            assert!(matches!(reply(line), Reply::UnknownCommand(_)), "{line}");
        }
    }

    #[test]
    fn a_server_that_cannot_write_is_told_from_one_that_cannot_do_anything() {
        for line in ["LOADING Redis is loading", "MASTERDOWN Link", "BUSY Redis is busy"] {
            assert_eq!(reply(line), Reply::Unwell(line.into()));
        }
        for line in ["OOM command not allowed", "READONLY You can't write", "NOREPLICAS Not enough"]
        {
            assert_eq!(reply(line), Reply::NoWrites(line.into()));
        }
        let wrapped = "ERR Error running script (call to f_1): @user_script:1: -OOM command not";
        assert_eq!(reply(wrapped), Reply::NoWrites("OOM command not".into()));
        assert!(matches!(reply("ERR Error running script: boom"), Reply::Failed(_)));
        assert_eq!(reply("LATE by 5"), Reply::Failed("LATE by 5".into()));
    }
}
