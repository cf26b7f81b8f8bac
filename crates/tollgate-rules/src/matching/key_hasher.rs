//! Hashes secrets in keys, so that no store, log or reply contains them.
//!
//! A value that is a secret becomes `%#` and the 128-bit SipHash-2-4 of its text as a key, in
//! hexadecimal. The hash is keyed: without the [`KeySecret`] a value cannot be guessed and compared.
//! No other part of a key begins with `%#`, so a hash is never taken for a value.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use siphasher::sip128::SipHasher24;

use super::key::{KeyBytes, KeyWriter};
use crate::compile::domain::{Domain, KeyPart};

/// The mark of a hash.
const MARK: &str = "%#";
/// The length of a hash with its mark.
const HASH_LENGTH: usize = MARK.len() + 32;

/// The secret that the hashes of secrets in keys depend on.
///
/// Values of `authorization`, cookies, API keys and attributes declared as `secret` are in keys only
/// as a hash. All processes that count in one store need the same secret: see
/// [`RuleLimiterBuilder::key_secret`](crate::RuleLimiterBuilder::key_secret).
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret([u8; 16]);

impl KeySecret {
    /// The secret of limiters with a shared store and without a secret of their own: it is public,
    /// but equal in all processes.
    pub(crate) const PUBLIC: KeySecret = KeySecret(*b"tollgate shared ");

    /// Creates a secret from random bytes.
    pub const fn new(bytes: [u8; 16]) -> KeySecret {
        KeySecret(bytes)
    }

    /// Creates a secret that no other process has.
    pub(crate) fn random() -> KeySecret {
        let mut bytes = [0; 16];
        for half in bytes.chunks_exact_mut(8) {
            // The keys of the standard library's hasher are random bits of the operating system.
            half.copy_from_slice(&RandomState::new().hash_one(MARK).to_ne_bytes());
        }
        KeySecret(bytes)
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(…)")
    }
}

/// Hashes secrets in keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyHasher {
    secret: KeySecret,
}

impl Default for KeyHasher {
    fn default() -> KeyHasher {
        KeyHasher::new(KeySecret::random())
    }
}

impl KeyHasher {
    pub(crate) fn new(secret: KeySecret) -> KeyHasher {
        KeyHasher { secret }
    }

    /// Returns the hash of a part of a key; none if the part is no value, or is empty.
    pub(crate) fn hash_part(&self, part: &[u8]) -> Option<String> {
        if matches!(part, b"%-" | b"%+" | b"%.") {
            return None;
        }
        let hash = SipHasher24::new_with_key(&self.secret.0).hash(part).as_u128();
        Some(format!("{MARK}{hash:032x}"))
    }

    /// Returns a part as keys contain it, whether it is given in clear, encoded or as a hash.
    fn stored_part(&self, part: &str) -> String {
        let is_hash = part.len() == HASH_LENGTH
            && part.strip_prefix(MARK).is_some_and(|hash| hash.bytes().all(is_lower_hex));
        if is_hash {
            return part.to_owned();
        }
        let encoded = encoded(part);
        self.hash_part(encoded.as_bytes()).unwrap_or(encoded)
    }
}

impl Domain {
    /// Returns a key of a rule as its counters have it; an operator may give secrets in clear.
    pub(crate) fn stored_key<'k>(&self, rule: u32, key: &'k str) -> Cow<'k, str> {
        let per = &self.compiled.rules[rule as usize].per;
        let is_secret = |part: &KeyPart| matches!(part, KeyPart::Value(expr) if expr.is_secret());
        if !per.iter().any(is_secret) {
            return Cow::Borrowed(key);
        }
        if let [_] = &per[..] {
            return self.hasher.stored_part(key).into();
        }
        let parts: Vec<&str> = key.split('|').collect();
        if parts.len() != per.len() {
            return Cow::Borrowed(key);
        }
        let stored = per.iter().zip(parts).map(|(part, text)| match is_secret(part) {
            true => self.hasher.stored_part(text),
            false => text.to_owned(),
        });
        stored.collect::<Vec<String>>().join("|").into()
    }

    /// Returns the domain with the bans by the keys that counters have.
    pub(crate) fn with_hashed_bans(self) -> Domain {
        if !self.compiled.has_secrets || self.given_bans.is_empty() {
            return self;
        }
        let bans = self.given_bans.with_keys(|rule, key| self.stored_key(rule, key).into_owned());
        Domain { bans: bans.into(), ..self }
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Returns the text of a value in a key. A text that is one already is returned as it is: only
/// characters that need an escape have one, so `50%3A` is a value in clear.
fn encoded(text: &str) -> String {
    if matches!(text, "%-" | "%+" | "%.")
        || decoded(text).is_some_and(|value| write(&value) == text)
    {
        return text.to_owned();
    }
    write(text)
}

fn write(value: &str) -> String {
    let mut bytes = KeyBytes::new();
    KeyWriter::new(&mut bytes).text(&[value]);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Resolves the escapes of a text; none if it has none, or others than keys have.
fn decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;

    fn domain(per: &str) -> Domain {
        let rules = format!("attributes: [org]\nrules: [{{ name: r, per: {per}, limit: 1/s }}]");
        rules.parse::<Rules>().unwrap().domains()[0].clone()
    }

    #[test]
    fn a_value_is_found_in_clear_encoded_and_as_its_hash() {
        let single = domain(r#"'header["authorization"]'"#);
        for value in ["Basic dXNlcjpwYXNz", "a|b", "50%", "s%3Aab", "{x}", "\u{7}", ""] {
            let stored = single.stored_key(0, value).into_owned();
            let as_key = write(value);
            assert_eq!(single.stored_key(0, &as_key), stored, "{value}");
            assert_eq!(single.stored_key(0, &stored), stored, "{value}");
            assert!(value.is_empty() || stored.starts_with(MARK), "{stored}");
            assert!(value.is_empty() || !stored.contains(value), "{stored}");
        }
        assert_eq!(single.stored_key(0, "%-"), "%-", "a missing value is no secret");
        let double = domain(r#"[org, 'cookie["s"]']"#);
        let stored = double.stored_key(0, "acme|s1").into_owned();
        assert!(stored.starts_with("acme|%#") && !stored.contains("s1"), "{stored}");
        assert_eq!(double.stored_key(0, &stored), stored);
        assert_eq!(domain("org").stored_key(0, "a|b%"), "a|b%");
    }

    /// Counters in a shared store outlive this build, so their keys must never change.
    #[test]
    fn hashes_never_change() {
        let hasher = KeyHasher::new(KeySecret::new(*b"0123456789abcdef"));
        assert_eq!(hasher.stored_part("secret"), "%#7a063a6cf6109211f33df6cfd137f925");
    }

    #[test]
    fn another_secret_gives_another_hash_and_secrets_are_not_printed() {
        let (one, other) = (KeySecret::random(), KeySecret::random());
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "KeySecret(…)");
        let of = |secret: KeySecret| KeyHasher::new(secret).stored_part("key");
        assert_ne!(of(one), of(other));
    }
}
