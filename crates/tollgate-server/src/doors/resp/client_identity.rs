//! The identity of a client: `HELLO`, `AUTH`, `CLIENT` and `RESET`.

use std::sync::Arc;

use super::command::RespCommand;
use super::introspection;
use super::reply_buffer::ReplyBuffer;
use super::throttle::integer;
use crate::access::{Permission, Role};
use crate::decisions::Database;
use crate::live_tokens::{AccessControl, TokenLookup};

/// The maximum length of a client name.
const MAX_NAME_CHARS: usize = 64;

/// The name of a client and what it may do.
#[derive(Debug)]
pub(super) struct ClientIdentity {
    /// The number of the connection.
    id: u64,
    name: Vec<u8>,
    /// Whether the client may run commands that need no right.
    pub(super) is_authenticated: bool,
    /// Whether the client may ask for decisions.
    pub(super) may_decide: bool,
    /// The token of the client and its role.
    token: Option<(Box<[u8]>, Role)>,
    /// The revision of the tokens that it was found in.
    revision: u64,
    access: Arc<AccessControl>,
}

impl ClientIdentity {
    pub(super) fn new(id: u64, access: Arc<AccessControl>) -> ClientIdentity {
        let is_open = access.is_open();
        ClientIdentity {
            id,
            name: Vec::new(),
            is_authenticated: is_open,
            may_decide: is_open,
            token: None,
            revision: access.revision(),
            access,
        }
    }

    /// Checks the token again if the tokens were reloaded.
    #[inline]
    pub(super) fn refresh(&mut self) {
        if self.revision != self.access.revision() {
            self.check_again();
        }
    }

    #[cold]
    fn check_again(&mut self) {
        self.revision = self.access.revision();
        let token = self.token.take().map(|(token, _)| token);
        let role = token.as_ref().and_then(|token| self.access.authenticate(token));
        self.set_token(token.zip(role.map(|(_, role)| role)));
    }

    fn set_token(&mut self, token: Option<(Box<[u8]>, Role)>) {
        self.token = token;
        self.is_authenticated = self.access.is_open() || self.token.is_some();
        self.may_decide = self.authorize(Permission::Decide).is_ok();
    }

    /// Checks whether the client has a right; the error is that of Redis.
    pub(super) fn authorize(&self, permission: Permission) -> Result<(), String> {
        let token =
            self.token.as_ref().map_or(TokenLookup::Missing, |(_, role)| TokenLookup::Found(*role));
        self.access
            .check(token, permission)
            .map_err(|refusal| format!("NOPERM {}", refusal.detail("AUTH <token>")))
    }

    /// Replies to `HELLO [2|3] [AUTH user token] [SETNAME name]`.
    pub(super) fn hello(&mut self, command: &RespCommand<'_>, replies: &mut ReplyBuffer) {
        match self.negotiate(command, replies.is_resp3) {
            Ok(is_resp3) => replies.is_resp3 = is_resp3,
            Err(error) => return replies.error(&error),
        }
        replies.map(7);
        replies.text("server");
        replies.text("tollgate");
        replies.text("version");
        replies.text(env!("CARGO_PKG_VERSION"));
        replies.text("proto");
        replies.integer(if replies.is_resp3 { 3 } else { 2 });
        replies.text("id");
        replies.count(self.id);
        replies.text("mode");
        replies.text("standalone");
        replies.text("role");
        replies.text("master");
        replies.text("modules");
        replies.array(0);
    }

    /// Applies the options of `HELLO`; returns whether replies are RESP3.
    fn negotiate(&mut self, command: &RespCommand<'_>, is_resp3: bool) -> Result<bool, String> {
        let is_resp3 = match command.get(1) {
            b"" if command.len() == 1 => is_resp3,
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
                self.authenticate(command.get(at + 1), command.get(at + 2))?;
                at += 3;
            } else if command.is(at, "SETNAME") && at + 1 < command.len() {
                self.rename(command.get(at + 1))?;
                at += 2;
            } else {
                let option: String = command.display(at).chars().take(64).collect();
                return Err(format!("ERR Syntax error in HELLO option '{option}'"));
            }
        }
        match self.is_authenticated {
            true => Ok(is_resp3),
            false => Err("NOAUTH HELLO must be called with the client already authenticated, \
                          otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                          authenticate the client and select the RESP protocol version at the \
                          same time"
                .into()),
        }
    }

    /// Replies to `AUTH [user] token`.
    pub(super) fn auth(&mut self, command: &RespCommand<'_>, replies: &mut ReplyBuffer) {
        let result = match command.len() {
            2 => self.authenticate(b"default", command.get(1)),
            3 => self.authenticate(command.get(1), command.get(2)),
            _ => Err("ERR syntax error".into()),
        };
        match result {
            Ok(()) => replies.ok(),
            Err(error) => replies.error(&error),
        }
    }

    /// Checks a token; clients without user names send the user `default`.
    fn authenticate(&mut self, user: &[u8], token: &[u8]) -> Result<(), String> {
        match self.access.authenticate(token) {
            Some((name, role)) if user == b"default" || user == name.as_bytes() => {
                self.set_token(Some((token.into(), role)));
                Ok(())
            }
            // Decisions need no token, so that the client seems to mean another server.
            _ if self.access.is_open() => {
                Err("ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?"
                    .into())
            }
            _ => Err("WRONGPASS invalid username-password pair or user is disabled.".into()),
        }
    }

    fn rename(&mut self, name: &[u8]) -> Result<(), String> {
        if name.len() > MAX_NAME_CHARS || !name.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "ERR Client names have at most {MAX_NAME_CHARS} characters, no spaces, newlines or \
                 special characters"
            ));
        }
        self.name = name.to_vec();
        Ok(())
    }

    /// Replies to `CLIENT ...`, which client libraries send when they connect.
    pub(super) fn client(
        &mut self,
        command: &RespCommand<'_>,
        database: Database,
        replies: &mut ReplyBuffer,
    ) {
        match (command.get(1).to_ascii_uppercase().as_slice(), command.len()) {
            (b"ID", 2) => replies.count(self.id),
            (b"GETNAME", 2) if self.name.is_empty() => replies.null(),
            (b"GETNAME", 2) => replies.bulk(&self.name),
            (b"SETNAME", 3) => match self.rename(command.get(2)) {
                Ok(()) => replies.ok(),
                Err(error) => replies.error(&error),
            },
            // These options have no effect here, but client libraries expect success.
            (b"SETINFO", 4) | (b"NO-EVICT" | b"NO-TOUCH", 3) => replies.ok(),
            (b"INFO", 2) => {
                let version = if replies.is_resp3 { 3 } else { 2 };
                let name = String::from_utf8_lossy(&self.name);
                let (id, database) = (self.id, database.number());
                replies.text(&format!("id={id} name={name} db={database} resp={version}\n"));
            }
            _ => introspection::unknown_subcommand(command, "CLIENT", replies),
        }
    }

    /// Replies to `RESET`, which restores the state of a new connection.
    pub(super) fn reset(&mut self, replies: &mut ReplyBuffer) {
        self.set_token(None);
        self.name.clear();
        replies.is_resp3 = false;
        replies.simple("RESET");
    }
}
