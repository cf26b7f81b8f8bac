//! The meaning of a server's replies: whether a command was executed, and what may be done next.

use redis::{ServerError, Value};

/// The reply to a command.
#[derive(Debug, PartialEq)]
pub(super) enum CommandReply {
    /// The command was executed.
    Done(Value),
    /// Not executed: the server does not know the script or the function.
    UnknownScript(String),
    /// Not executed: the server does not know the command, or does not allow it.
    UnknownCommand(String),
    /// Not executed: another server owns the slot, at `host:port`.
    Moved(String),
    /// Not executed: the key is already at another server, at `host:port`.
    Ask(String),
    /// Not executed: the slot is migrating.
    TryAgain(String),
    /// Not executed: no server owns the slot now.
    ClusterDown(String),
    /// Not executed: the server executes no commands now.
    Unavailable(String),
    /// Not executed: the server accepts no writes now.
    NoWrites(String),
    /// An error of another kind.
    Failed(String),
}

impl CommandReply {
    pub(super) fn from_value(value: Value) -> CommandReply {
        match value {
            Value::ServerError(error) => CommandReply::from_error(&error),
            value => CommandReply::Done(value),
        }
    }

    /// Returns the text of the reply, for a message.
    pub(super) fn text(&self) -> String {
        match self {
            CommandReply::Done(value) => format!("{value:?}"),
            CommandReply::Moved(address) => format!("MOVED {address}"),
            CommandReply::Ask(address) => format!("ASK {address}"),
            CommandReply::UnknownScript(text)
            | CommandReply::UnknownCommand(text)
            | CommandReply::TryAgain(text)
            | CommandReply::ClusterDown(text)
            | CommandReply::Unavailable(text)
            | CommandReply::NoWrites(text)
            | CommandReply::Failed(text) => text.clone(),
        }
    }

    fn from_error(error: &ServerError) -> CommandReply {
        let details = error.details().unwrap_or_default();
        let text = error_text(error);
        // Before Redis 7, an error inside a script arrives wrapped: "ERR Error running script (call
        // to f_…): @user_script:1: -OOM command not allowed …".
        let inner = details.split_once(": -").map(|(_, inner)| inner);
        let inner = inner.and_then(|inner| inner.split_whitespace().next()).unwrap_or_default();
        match (error.code(), inner) {
            ("NOSCRIPT", _) => CommandReply::UnknownScript(text),
            ("ERR", _) if details.starts_with("Function not found") => {
                CommandReply::UnknownScript(text)
            }
            ("ERR", _) if details.starts_with("unknown command") => {
                CommandReply::UnknownCommand(text)
            }
            ("ERR", _) if details.starts_with("unknown subcommand") => {
                CommandReply::UnknownCommand(text)
            }
            ("NOPERM", _) => CommandReply::UnknownCommand(text),
            ("MOVED", _) => {
                redirect_address(details).map_or(CommandReply::Failed(text), CommandReply::Moved)
            }
            ("ASK", _) => {
                redirect_address(details).map_or(CommandReply::Failed(text), CommandReply::Ask)
            }
            ("TRYAGAIN", _) => CommandReply::TryAgain(text),
            ("CLUSTERDOWN", _) => CommandReply::ClusterDown(text),
            ("LOADING" | "MASTERDOWN" | "BUSY", _) => CommandReply::Unavailable(text),
            ("READONLY" | "OOM" | "MISCONF" | "NOREPLICAS", _) => CommandReply::NoWrites(text),
            ("ERR", "READONLY" | "OOM" | "MISCONF" | "NOREPLICAS") => {
                let start = text.find(": -").map_or(0, |at| at + 3);
                CommandReply::NoWrites(text[start..].to_owned())
            }
            _ => CommandReply::Failed(text),
        }
    }
}

/// Returns the text of an error, as the server wrote it.
pub(super) fn error_text(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default())
}

/// Returns the address in "3999 127.0.0.1:6381".
fn redirect_address(details: &str) -> Option<String> {
    details.split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(line: &str) -> CommandReply {
        CommandReply::from_value(
            redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap(),
        )
    }

    #[test]
    fn replies_without_execution_are_distinguished() {
        for line in ["NOSCRIPT No matching script.", "ERR Function not found"] {
            assert_eq!(reply(line), CommandReply::UnknownScript(line.into()));
        }
        assert_eq!(reply("MOVED 3999 10.0.0.1:6381"), CommandReply::Moved("10.0.0.1:6381".into()));
        assert_eq!(reply("ASK 3999 :6381"), CommandReply::Ask(":6381".into()));
        assert!(matches!(reply("MOVED"), CommandReply::Failed(_)));
        assert!(matches!(reply("TRYAGAIN Multiple keys"), CommandReply::TryAgain(_)));
        assert!(matches!(reply("CLUSTERDOWN Hash slot not served"), CommandReply::ClusterDown(_)));
        for line in [
            "ERR unknown command 'FCALL', with args",
            "ERR unknown command `FCALL`, with args",
            "NOPERM this user has no permissions to run the 'fcall' command",
        ] {
            assert!(matches!(reply(line), CommandReply::UnknownCommand(_)), "{line}");
        }
    }

    #[test]
    fn refused_writes_and_unavailable_servers_are_distinguished() {
        for line in ["LOADING Redis is loading", "MASTERDOWN Link", "BUSY Redis is busy"] {
            assert_eq!(reply(line), CommandReply::Unavailable(line.into()));
        }
        for line in ["OOM command not allowed", "READONLY You can't write", "NOREPLICAS Not enough"]
        {
            assert_eq!(reply(line), CommandReply::NoWrites(line.into()));
        }
        let wrapped = "ERR Error running script (call to f_1): @user_script:1: -OOM command not";
        assert_eq!(reply(wrapped), CommandReply::NoWrites("OOM command not".into()));
        assert!(matches!(reply("ERR Error running script: boom"), CommandReply::Failed(_)));
        assert_eq!(reply("LATE by 5"), CommandReply::Failed("LATE by 5".into()));
    }
}
