//! Tokens that can be replaced while the server runs, and what their bearers may do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::access::{Permission, Role, Tokens};

/// A list of tokens that a reload replaces.
#[derive(Debug)]
pub struct LiveTokens(ArcSwap<Tokens>);

impl LiveTokens {
    pub(crate) fn new(tokens: Tokens) -> Arc<LiveTokens> {
        Arc::new(LiveTokens(ArcSwap::from_pointee(tokens)))
    }

    /// Returns the current tokens.
    pub(crate) fn load(&self) -> Arc<Tokens> {
        self.0.load_full()
    }

    /// Reads the token file again. The previous tokens stay valid if it cannot be read.
    pub fn reload(&self) {
        match self.load().read_again() {
            None => {}
            Some(Ok(tokens)) => {
                tracing::info!(path = %tokens.shown_path(), "reloaded the tokens");
                self.0.store(Arc::new(tokens));
            }
            Some(Err(error)) => {
                tracing::error!(%error, "cannot reload the tokens; the previous ones stay valid");
            }
        }
    }
}

/// The tokens of a server: who may ask for decisions, change counters and use the admin API.
#[derive(Debug)]
pub(crate) struct AccessControl {
    admin: Arc<LiveTokens>,
    /// The tokens of callers that ask for decisions; without them, everyone may.
    data: Option<Arc<LiveTokens>>,
    /// How often the tokens were reloaded.
    revision: AtomicU64,
}

/// The token of a call, looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenLookup {
    /// The call has no token.
    Missing,
    /// The call has a token that the server does not have.
    Unknown,
    /// The call has a token with this role.
    Found(Role),
}

impl TokenLookup {
    /// Looks up the token of a call, if it has one.
    pub(crate) fn new<'t>(
        presented: Option<&'t [u8]>,
        role: impl FnOnce(&'t [u8]) -> Option<Role>,
    ) -> TokenLookup {
        match presented {
            None => TokenLookup::Missing,
            Some(token) => role(token).map_or(TokenLookup::Unknown, TokenLookup::Found),
        }
    }
}

/// The reason why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessRefusal {
    /// The call needs a token.
    NoToken(Permission),
    /// The server does not have the token of the call.
    WrongToken,
    /// The token does not have the role that the call needs.
    WrongRole(Role, Permission),
}

impl AccessControl {
    pub(crate) fn new(admin: Arc<LiveTokens>, data: Option<Tokens>) -> AccessControl {
        let data = data.map(|tokens| LiveTokens::new(tokens.for_decisions()));
        AccessControl { admin, data, revision: AtomicU64::new(0) }
    }

    /// Whether anyone may ask for decisions.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.data.is_none()
    }

    /// Returns how often the tokens were reloaded: what was authenticated before is checked again.
    #[inline]
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Returns the name and role of a token, be it one for decisions or for the admin API.
    pub(crate) fn authenticate(&self, presented: &[u8]) -> Option<(String, Role)> {
        let owner = |tokens: &Arc<LiveTokens>| {
            let tokens = tokens.load();
            tokens.authenticate(presented).map(|(name, role)| (name.to_owned(), role))
        };
        self.data.as_ref().and_then(owner).or_else(|| owner(&self.admin))
    }

    /// Checks whether the bearer of a token may make a call.
    pub(crate) fn check(
        &self,
        token: TokenLookup,
        permission: Permission,
    ) -> Result<(), AccessRefusal> {
        if self.is_open() && matches!(permission, Permission::Decide | Permission::Peek) {
            return Ok(());
        }
        AccessRefusal::of(token, permission).map_or(Ok(()), Err)
    }

    /// Reads the token files again. Blocks the thread.
    pub(crate) fn reload(&self) {
        self.admin.reload();
        if let Some(data) = &self.data {
            data.reload();
        }
        self.revision.fetch_add(1, Ordering::Release);
    }
}

impl AccessRefusal {
    /// Returns the reason why a token does not give a right; none if it does.
    pub(crate) fn of(token: TokenLookup, permission: Permission) -> Option<AccessRefusal> {
        match token {
            TokenLookup::Missing => Some(AccessRefusal::NoToken(permission)),
            TokenLookup::Unknown => Some(AccessRefusal::WrongToken),
            TokenLookup::Found(role) if role.allows(permission) => None,
            TokenLookup::Found(role) => Some(AccessRefusal::WrongRole(role, permission)),
        }
    }

    /// Returns what to do, with the way in which this door takes tokens.
    pub(crate) fn detail(self, how: &str) -> String {
        match self {
            AccessRefusal::NoToken(Permission::Change) => format!(
                "this needs a token with the role `write`: {how}; the server has one in the file \
                 `tokens` of its data folder"
            ),
            AccessRefusal::NoToken(_) => format!("a token is needed: {how}"),
            AccessRefusal::WrongToken => "the token is wrong: none of the tokens for this call is \
                                          equal to it; compare it with the server's file of tokens, \
                                          which is read again on SIGHUP"
                .to_owned(),
            AccessRefusal::WrongRole(role, permission) => format!(
                "this token has the role `{}`; this needs the role `{}`",
                role.name(),
                permission.role()
            ),
        }
    }
}
