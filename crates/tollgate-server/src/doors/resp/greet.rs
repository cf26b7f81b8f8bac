//! Who is there and how they want to be spoken to: `HELLO`, `AUTH`, `CLIENT`, `SELECT`, `RESET`.

use std::sync::Arc;

use super::about;
use super::command::Command;
use super::reply::Replies;
use super::throttle::integer;
use crate::config::Config;

/// What a connection may be called.
const LONGEST_NAME: usize = 64;

/// Who is there.
#[derive(Debug)]
pub(super) struct Guest {
    /// The number of the connection.
    id: u64,
    name: Vec<u8>,
    /// Whether it may ask.
    pub(super) known: bool,
    config: Arc<Config>,
}

impl Guest {
    pub(super) fn new(id: u64, config: Arc<Config>) -> Guest {
        Guest { id, name: Vec::new(), known: config.data_tokens.is_none(), config }
    }

    /// `HELLO [2|3] [AUTH user token] [SETNAME name]`.
    pub(super) fn hello(&mut self, command: &Command<'_>, replies: &mut Replies) {
        match self.greeted(command, replies.third) {
            Ok(third) => replies.third = third,
            Err(error) => return replies.error(&error),
        }
        replies.map(7);
        replies.text("server");
        replies.text("tollgate");
        replies.text("version");
        replies.text(env!("CARGO_PKG_VERSION"));
        replies.text("proto");
        replies.integer(if replies.third { 3 } else { 2 });
        replies.text("id");
        replies.count(self.id);
        replies.text("mode");
        replies.text("standalone");
        replies.text("role");
        replies.text("master");
        replies.text("modules");
        replies.array(0);
    }

    /// Whether the third version is wanted.
    fn greeted(&mut self, command: &Command<'_>, third: bool) -> Result<bool, String> {
        let third = match command.get(1) {
            b"" if command.len() == 1 => third,
            b"2" => false,
            b"3" => true,
            other if integer(other).is_none() => {
                return Err("ERR Protocol version is not an integer or out of range".into());
            }
            _ => return Err("NOPROTO unsupported protocol version".into()),
        };
        let mut at = 2;
        while at < command.len() {
            if command.is(at, "AUTH") && at + 2 < command.len() {
                self.admit(command.get(at + 1), command.get(at + 2))?;
                at += 3;
            } else if command.is(at, "SETNAME") && at + 1 < command.len() {
                self.rename(command.get(at + 1))?;
                at += 2;
            } else {
                let option: String = command.shown(at).chars().take(64).collect();
                return Err(format!("ERR Syntax error in HELLO option '{option}'"));
            }
        }
        match self.known {
            true => Ok(third),
            false => Err("NOAUTH HELLO must be called with the client already authenticated, \
                          otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                          authenticate the client and select the RESP protocol version at the \
                          same time"
                .into()),
        }
    }

    /// `AUTH [user] token`.
    pub(super) fn auth(&mut self, command: &Command<'_>, replies: &mut Replies) {
        let admitted = match command.len() {
            2 => self.admit(b"default", command.get(1)),
            3 => self.admit(command.get(1), command.get(2)),
            _ => Err("ERR syntax error".into()),
        };
        match admitted {
            Ok(()) => replies.ok(),
            Err(error) => replies.error(&error),
        }
    }

    /// Lets somebody in by a token. Clients that know no names call everybody `default`.
    fn admit(&mut self, user: &[u8], token: &[u8]) -> Result<(), String> {
        let Some(tokens) = &self.config.data_tokens else {
            return Err("ERR AUTH <password> called without any password configured for the \
                        default user. Are you sure your configuration is correct?"
                .into());
        };
        let owner = tokens.owner(token).map(|(name, _)| name.as_bytes());
        match owner {
            Some(name) if user == b"default" || user == name => {
                self.known = true;
                Ok(())
            }
            _ => Err("WRONGPASS invalid username-password pair or user is disabled.".into()),
        }
    }

    fn rename(&mut self, name: &[u8]) -> Result<(), String> {
        if name.len() > LONGEST_NAME || !name.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "ERR Client names have at most {LONGEST_NAME} characters, no spaces, newlines or \
                 special characters"
            ));
        }
        self.name = name.to_vec();
        Ok(())
    }

    /// `CLIENT ...`: what client libraries say when they connect.
    pub(super) fn client(&mut self, command: &Command<'_>, replies: &mut Replies) {
        match (command.get(1).to_ascii_uppercase().as_slice(), command.len()) {
            (b"ID", 2) => replies.count(self.id),
            (b"GETNAME", 2) if self.name.is_empty() => replies.null(),
            (b"GETNAME", 2) => replies.bulk(&self.name),
            (b"SETNAME", 3) => match self.rename(command.get(2)) {
                Ok(()) => replies.ok(),
                Err(error) => replies.error(&error),
            },
            // Nothing is evicted, and who the client's library is changes nothing.
            (b"SETINFO", 4) | (b"NO-EVICT" | b"NO-TOUCH", 3) => replies.ok(),
            (b"INFO", 2) => {
                let version = if replies.third { 3 } else { 2 };
                let name = String::from_utf8_lossy(&self.name);
                replies.text(&format!("id={} name={name} db=0 resp={version}\n", self.id));
            }
            _ => about::unknown_subcommand(command, "CLIENT", replies),
        }
    }

    /// `RESET`: as if the connection were new.
    pub(super) fn reset(&mut self, replies: &mut Replies) {
        self.known = self.config.data_tokens.is_none();
        self.name.clear();
        replies.third = false;
        replies.simple("RESET");
    }
}

/// `SELECT`: there is one database.
pub(super) fn select(command: &Command<'_>, replies: &mut Replies) {
    match integer(command.get(1)) {
        Some(0) => replies.ok(),
        Some(_) => replies.error("ERR DB index is out of range"),
        None => replies.error("ERR value is not an integer or out of range"),
    }
}
