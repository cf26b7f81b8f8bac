//! The commands there are, and what is known about them.

/// A command.
#[derive(Debug)]
pub(super) struct Known {
    /// In capitals.
    pub(super) name: &'static str,
    pub(super) verb: Verb,
    /// How many arguments it takes, its name among them; at least so many if negative.
    pub(super) arity: i64,
    /// Whether the first argument is a key.
    pub(super) keyed: bool,
    pub(super) summary: &'static str,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Throttle,
    Limit,
    Check,
    Peek,
    Forget,
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

impl Verb {
    /// Whether strangers may use it where tokens are asked for.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Verb::Hello | Verb::Auth | Verb::Quit | Verb::Reset)
    }
}

const fn known(
    name: &'static str,
    verb: Verb,
    arity: i64,
    keyed: bool,
    summary: &'static str,
) -> Known {
    Known { name, verb, arity, keyed, summary }
}

/// Every command.
#[rustfmt::skip]
pub(super) const COMMANDS: [Known; 15] = [
    known("CL.THROTTLE", Verb::Throttle, -5, true, "Decides by a token bucket, as redis-cell does: key max_burst count period [quantity]."),
    known("TG.LIMIT", Verb::Limit, -3, true, "Decides by a limit such as 10/s burst 20: key limit [COST n]."),
    known("TG.CHECK", Verb::Check, -2, false, "Decides by rules: domain [COST n] [attribute value ...]."),
    known("TG.PEEK", Verb::Peek, -2, false, "Says how counters stand: key limit, or domain attribute value ..."),
    known("TG.RESET", Verb::Forget, -2, false, "Forgets what was spent: key limit, or domain attribute value ..."),
    known("PING", Verb::Ping, -1, false, "Answers PONG, or what it was given."),
    known("ECHO", Verb::Echo, 2, false, "Answers what it was given."),
    known("HELLO", Verb::Hello, -1, false, "Greets, and chooses the version of the protocol: [2|3] [AUTH user token] [SETNAME name]."),
    known("AUTH", Verb::Auth, -2, false, "Says who is there: [user] token."),
    known("INFO", Verb::Info, -1, false, "Tells about the server."),
    known("COMMAND", Verb::Command, -1, false, "Tells about commands: [COUNT|LIST|INFO name ...|DOCS name ...]."),
    known("QUIT", Verb::Quit, -1, false, "Ends the connection."),
    known("SELECT", Verb::Select, 2, false, "Chooses the one database there is: 0."),
    known("CLIENT", Verb::Client, -2, false, "Tells about this connection: ID|INFO|GETNAME|SETNAME|SETINFO|NO-EVICT|NO-TOUCH."),
    known("RESET", Verb::Reset, 1, false, "Begins as if the connection were new."),
];

/// The command of that name, in either case.
pub(super) fn find(name: &[u8]) -> Option<&'static Known> {
    COMMANDS.iter().find(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
}
