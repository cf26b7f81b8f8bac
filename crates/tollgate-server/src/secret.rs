//! Secret tokens: hidden in logs, compared in constant time, long enough to resist guessing.

use std::fmt;
use std::io;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A secret token that never appears in logs or messages.
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

/// The reason why a text cannot be a token.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeakSecret {
    /// The text is so short that it could be guessed.
    #[error("a token needs at least {} characters", Secret::MIN_LENGTH)]
    Short,
    /// The text contains a character that is not allowed in a header.
    #[error("a token is made of letters, digits and - . _ ~ + / =")]
    Characters,
}

impl Secret {
    /// The minimum length of a token.
    pub const MIN_LENGTH: usize = 16;

    /// Creates a token from a text that a user chose.
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

    /// Creates a token from 256 random bits of the operating system.
    pub(crate) fn random() -> io::Result<Secret> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Secret(crate::digest::hex(&bytes)))
    }

    /// Returns the token in clear text, to be sent or stored.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether a presented token equals this one, in constant time.
    pub(crate) fn matches(&self, presented: &[u8]) -> bool {
        // Digests have a fixed length, so that the time does not reveal the length of the token.
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
    fn a_token_matches_only_itself() {
        let token = Secret::new("0123456789abcdef").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        assert!(!token.matches(b"0123456789abcdeF"));
        assert!(!token.matches(b"0123456789abcde"));
        assert!(!token.matches(b""));
    }

    #[test]
    fn random_tokens_differ_and_are_strong() {
        let (one, two) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one.reveal(), two.reveal());
        assert!(Secret::new(one.reveal()).is_ok());
    }
}
