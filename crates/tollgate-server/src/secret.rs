//! Tokens: kept out of logs, compared in constant time, never guessed.

use std::fmt;
use std::io;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A token. It never shows in a log or a message.
///
/// ```
/// use tollgate_server::secret::Secret;
/// let token = Secret::new("correct-horse-battery")?;
/// assert_eq!(format!("{token:?}"), "Secret(…)");
/// assert!(Secret::new("short").is_err());
/// # Ok::<(), tollgate_server::secret::WeakSecret>(())
/// ```
#[derive(Clone)]
pub struct Secret(String);

/// Why a text cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeakSecret {
    /// It could be guessed.
    #[error("a token needs at least {} characters", Secret::MIN_LENGTH)]
    Short,
    /// It would not fit in a header.
    #[error("a token is made of letters, digits and - . _ ~ + / =")]
    Characters,
}

impl Secret {
    /// The shortest token that is accepted.
    pub const MIN_LENGTH: usize = 16;

    /// A token somebody chose.
    pub fn new(text: impl Into<String>) -> Result<Secret, WeakSecret> {
        let text = text.into();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        if !text.chars().all(fits) {
            return Err(WeakSecret::Characters);
        }
        if text.len() < Self::MIN_LENGTH {
            return Err(WeakSecret::Short);
        }
        Ok(Secret(text))
    }

    /// A token nobody can guess: 256 bits from the operating system.
    pub(crate) fn random() -> io::Result<Secret> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Secret(crate::digest::hex(&bytes)))
    }

    /// The token itself, to be sent or stored.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether a caller's token is this one; takes as long whichever it is.
    pub(crate) fn is(&self, presented: &[u8]) -> bool {
        // Digests have one length, so that not even the length can be measured.
        Sha256::digest(self.0.as_bytes()).ct_eq(&Sha256::digest(presented)).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl std::str::FromStr for Secret {
    type Err = WeakSecret;

    fn from_str(text: &str) -> Result<Secret, WeakSecret> {
        Secret::new(text.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_only_itself() {
        let token = Secret::new("0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        assert!(!token.is(b"0123456789abcdeF"));
        assert!(!token.is(b"0123456789abcde"));
        assert!(!token.is(b""));
    }

    #[test]
    fn random_tokens_differ_and_are_strong() {
        let (one, two) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one.reveal(), two.reveal());
        assert!(Secret::new(one.reveal()).is_ok());
    }
}
