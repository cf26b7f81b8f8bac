//! A cache of verified tokens, so that not every request pays for a signature.
//!
//! The cache stores digests of tokens, not the tokens. It has two generations: when the young one is full it
//! becomes the old one, and what is used moves to the young one again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::VerifiedIdentity;
use super::claims::Validity;

/// The digest of a token or an API key.
pub(super) type TokenDigest = [u8; 32];

/// Returns the SHA-256 of a token or an API key.
pub(super) fn token_digest(secret: &[u8]) -> TokenDigest {
    let mut digest = [0; 32];
    digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, secret).as_ref());
    digest
}

/// A verified token.
#[derive(Clone, Debug)]
pub(super) struct VerifiedToken {
    pub(super) identity: Arc<VerifiedIdentity>,
    pub(super) validity: Validity,
}

/// The maximum memory of the claims in one generation, in bytes.
const GENERATION_BYTES: usize = 8 << 20;
/// The memory of an entry besides its claims, in bytes.
const ENTRY_BYTES: usize = 160;

#[derive(Debug, Default)]
pub(super) struct TokenCache(Mutex<TokenGenerations>);

#[derive(Debug, Default)]
struct TokenGenerations {
    young: HashMap<TokenDigest, VerifiedToken>,
    young_bytes: usize,
    old: HashMap<TokenDigest, VerifiedToken>,
}

impl TokenCache {
    /// Returns a token that was verified before.
    pub(super) fn get(&self, digest: &TokenDigest) -> Option<VerifiedToken> {
        let generations = &mut *self.0.lock();
        if let Some(token) = generations.young.get(digest) {
            return Some(token.clone());
        }
        let token = generations.old.remove(digest)?;
        generations.add(*digest, token.clone());
        Some(token)
    }

    pub(super) fn add(&self, digest: TokenDigest, token: VerifiedToken) {
        self.0.lock().add(digest, token);
    }

    /// Forgets a token that has expired.
    pub(super) fn remove(&self, digest: &TokenDigest) {
        let generations = &mut *self.0.lock();
        if let Some(token) = generations.young.remove(digest) {
            generations.young_bytes = generations.young_bytes.saturating_sub(size(&token));
        }
        generations.old.remove(digest);
    }

    /// Forgets all tokens, because the keys have changed.
    pub(super) fn clear(&self) {
        *self.0.lock() = TokenGenerations::default();
    }
}

impl TokenGenerations {
    fn add(&mut self, digest: TokenDigest, token: VerifiedToken) {
        let bytes = size(&token);
        if self.young_bytes + bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(digest, token).is_none() {
            self.young_bytes += bytes;
        }
    }
}

fn size(token: &VerifiedToken) -> usize {
    let attributes = token.identity.attributes.iter();
    let claims: usize = attributes.map(|(name, value)| name.len() + value.text().len() + 64).sum();
    claims + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::super::options::{JwtKeySource, JwtOptions};
    use super::*;

    fn token(bytes: usize) -> VerifiedToken {
        let options = JwtOptions::new(JwtKeySource::File("keys".into()));
        let claims = format!("{{\"sub\":\"{}\"}}", "x".repeat(bytes));
        let read = super::super::claims::read_claims(claims.as_bytes(), &options).unwrap();
        VerifiedToken { identity: Arc::new(read.0), validity: read.1 }
    }

    fn digest(number: u32) -> TokenDigest {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_le_bytes());
        digest
    }

    #[test]
    fn the_memory_is_bounded_and_used_tokens_stay() {
        let cache = TokenCache::default();
        let large = token(1 << 20);
        for number in 0..100 {
            cache.add(digest(number), large.clone());
            assert!(cache.get(&digest(0)).is_some(), "it is used after each of {number}");
        }
        let kept = (0..100).filter(|number| cache.get(&digest(*number)).is_some()).count();
        assert!((2..=16).contains(&kept), "{kept}");
        assert!(cache.get(&digest(1)).is_none(), "it was not used");
        cache.remove(&digest(99));
        assert!(cache.get(&digest(99)).is_none());
        cache.clear();
        assert!(cache.get(&digest(0)).is_none());
    }
}
