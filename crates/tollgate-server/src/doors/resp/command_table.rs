//! The table of commands.

use super::session::TimeUnit;
use crate::access::Permission;
use crate::decisions::ThrottleDialect;

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
    Throttle(ThrottleDialect),
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
    Multi,
    Exec,
    Discard,
    Eval,
    EvalSha,
    Script,
    Delete,
    Exists,
    Ttl(TimeUnit),
    Expire(TimeUnit),
    Get,
    Set,
    /// Adds the amount times this number.
    Increment(i64),
}

impl CommandKind {
    /// Returns the right that the command needs, if it needs one.
    pub(super) fn permission(self) -> Option<Permission> {
        match self {
            CommandKind::Throttle(_) | CommandKind::Limit | CommandKind::Check => {
                Some(Permission::Decide)
            }
            // More rights are checked where the command is run: they depend on its arguments.
            CommandKind::Script
            | CommandKind::Expire(_)
            | CommandKind::Set
            | CommandKind::Increment(_) => Some(Permission::Decide),
            CommandKind::Peek | CommandKind::Exists | CommandKind::Ttl(_) | CommandKind::Get => {
                Some(Permission::Peek)
            }
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
pub(super) const COMMANDS: [CommandSpec; 35] = [
    command("CL.THROTTLE", CommandKind::Throttle(ThrottleDialect::RedisCell), -5, true, "Decides by a token bucket, as redis-cell does: key max_burst count period [quantity]."),
    command("THROTTLE", CommandKind::Throttle(ThrottleDialect::Throttlecrab), -5, true, "Decides by a token bucket, as throttlecrab does: key max_burst count_per_period period [quantity]."),
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
    command("SELECT", CommandKind::Select, 2, false, "Selects one of the databases 0 to 15: CL.THROTTLE has separate keys in each."),
    command("CLIENT", CommandKind::Client, -2, false, "Returns information about this connection: ID|INFO|GETNAME|SETNAME|SETINFO|NO-EVICT|NO-TOUCH."),
    command("RESET", CommandKind::Reset, 1, false, "Resets the connection to its initial state."),
    command("MULTI", CommandKind::Multi, 1, false, "Queues the commands that follow, up to EXEC."),
    command("EXEC", CommandKind::Exec, 1, false, "Runs the queued commands; each is atomic by itself."),
    command("DISCARD", CommandKind::Discard, 1, false, "Drops the queued commands."),
    command("EVAL", CommandKind::Eval, -3, false, "Runs a script that the server knows: script numkeys [key ...] [argument ...]."),
    command("EVALSHA", CommandKind::EvalSha, -3, false, "Runs a script by its SHA-1: sha1 numkeys [key ...] [argument ...]."),
    command("SCRIPT", CommandKind::Script, -2, false, "Loads and finds scripts: LOAD script|EXISTS sha1 ...|FLUSH [ASYNC|SYNC]."),
    command("DEL", CommandKind::Delete, -2, true, "Removes keys: counters of CL.THROTTLE and keys of script libraries."),
    command("UNLINK", CommandKind::Delete, -2, true, "Removes keys, as DEL does."),
    command("EXISTS", CommandKind::Exists, -2, true, "Returns how many of the keys exist."),
    command("TTL", CommandKind::Ttl(TimeUnit::Seconds), 2, true, "Returns the seconds until a key is full or expires."),
    command("PTTL", CommandKind::Ttl(TimeUnit::Milliseconds), 2, true, "Returns the milliseconds until a key is full or expires."),
    command("EXPIRE", CommandKind::Expire(TimeUnit::Seconds), 3, true, "Sets the expiry of a key of a script library: key seconds."),
    command("PEXPIRE", CommandKind::Expire(TimeUnit::Milliseconds), 3, true, "Sets the expiry of a key of a script library: key milliseconds."),
    command("GET", CommandKind::Get, 2, true, "Returns the value of a key of a script library."),
    command("SET", CommandKind::Set, -3, true, "Sets a key of a script library: key number [EX seconds|PX milliseconds] [NX|XX]."),
    command("INCR", CommandKind::Increment(1), 2, true, "Adds one to a key of a script library."),
    command("DECR", CommandKind::Increment(-1), 2, true, "Subtracts one from a key of a script library."),
    command("INCRBY", CommandKind::Increment(1), 3, true, "Adds to a key of a script library."),
    command("DECRBY", CommandKind::Increment(-1), 3, true, "Subtracts from a key of a script library."),
];

/// Finds a command by its name, ignoring case.
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}
