//! The table of commands.

use crate::access::Permission;

/// The description of a command.
#[derive(Debug)]
pub(super) struct CommandSpec {
    /// The name in capitals.
    pub(super) name: &'static str,
    pub(super) kind: CommandKind,
    /// The number of arguments including the name; if negative, the minimum.
    pub(super) arity: i64,
    /// Whether the first argument is a key.
    pub(super) keyed: bool,
    pub(super) summary: &'static str,
}

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Throttle,
    Limit,
    Check,
    Peek,
    ResetCounters,
    Ping,
    Echo,
    Hello,
    Auth,
    Info,
    Command,
    Quit,
    Select,
    Client,
    Reset,
}

impl CommandKind {
    /// Returns the right that the command needs, if it needs one.
    pub(super) fn permission(self) -> Option<Permission> {
        match self {
            CommandKind::Throttle | CommandKind::Limit | CommandKind::Check => {
                Some(Permission::Decide)
            }
            CommandKind::Peek => Some(Permission::Peek),
            CommandKind::ResetCounters => Some(Permission::Change),
            _ => None,
        }
    }

    /// Returns whether clients may run the command before they authenticate.
    pub(super) fn is_allowed_anonymously(self) -> bool {
        matches!(
            self,
            CommandKind::Hello | CommandKind::Auth | CommandKind::Quit | CommandKind::Reset
        )
    }
}

const fn command(
    name: &'static str,
    kind: CommandKind,
    arity: i64,
    keyed: bool,
    summary: &'static str,
) -> CommandSpec {
    CommandSpec { name, kind, arity, keyed, summary }
}

/// Every command.
#[rustfmt::skip]
pub(super) const COMMANDS: [CommandSpec; 15] = [
    command("CL.THROTTLE", CommandKind::Throttle, -5, true, "Decides by a token bucket, as redis-cell does: key max_burst count period [quantity]."),
    command("TG.LIMIT", CommandKind::Limit, -3, true, "Decides by a limit such as 10/s burst 20: key limit [limit ...] [COST n]."),
    command("TG.CHECK", CommandKind::Check, -2, false, "Decides by rules: domain [COST n] [attribute value ...]."),
    command("TG.PEEK", CommandKind::Peek, -2, false, "Returns the state of counters: key limit, or domain attribute value ..."),
    command("TG.RESET", CommandKind::ResetCounters, -2, false, "Resets counters: key limit, or domain attribute value ..."),
    command("PING", CommandKind::Ping, -1, false, "Returns PONG, or the argument."),
    command("ECHO", CommandKind::Echo, 2, false, "Returns the argument."),
    command("HELLO", CommandKind::Hello, -1, false, "Starts a session and selects the protocol version: [2|3] [AUTH user token] [SETNAME name]."),
    command("AUTH", CommandKind::Auth, -2, false, "Authenticates the connection: [user] token."),
    command("INFO", CommandKind::Info, -1, false, "Returns information about the server."),
    command("COMMAND", CommandKind::Command, -1, false, "Returns information about commands: [COUNT|LIST|INFO name ...|DOCS name ...]."),
    command("QUIT", CommandKind::Quit, -1, false, "Closes the connection."),
    command("SELECT", CommandKind::Select, 2, false, "Selects the database; 0 is the only one."),
    command("CLIENT", CommandKind::Client, -2, false, "Returns information about this connection: ID|INFO|GETNAME|SETNAME|SETINFO|NO-EVICT|NO-TOUCH."),
    command("RESET", CommandKind::Reset, 1, false, "Resets the connection to its initial state."),
];

/// Finds a command by its name, ignoring case.
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}
