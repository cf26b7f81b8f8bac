//! Names that nobody can guess: who knows one was told it.

use std::fmt;

/// 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Unguessable(pub(crate) u128);

impl Unguessable {
    pub(crate) fn new() -> Result<Unguessable, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Unguessable(u128::from_ne_bytes(bytes)))
    }

    pub(crate) fn parse(text: &str) -> Option<Unguessable> {
        let is_ours = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_ours.then(|| u128::from_str_radix(text, 16).ok().map(Unguessable)).flatten()
    }
}

impl fmt::Display for Unguessable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
