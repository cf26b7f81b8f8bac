//! Random ids that cannot be guessed, so that knowing one proves having received it.

use std::fmt;

/// An id of 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RandomId(pub(crate) u128);

impl RandomId {
    pub(crate) fn new() -> Result<RandomId, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(RandomId(u128::from_ne_bytes(bytes)))
    }

    pub(crate) fn parse(text: &str) -> Option<RandomId> {
        let is_valid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_valid.then(|| u128::from_str_radix(text, 16).ok().map(RandomId)).flatten()
    }
}

impl fmt::Display for RandomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
