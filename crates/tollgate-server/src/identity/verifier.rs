//! Verifies the tokens of requests with the current keys.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper::HeaderMap;
use tokio::sync::Notify;

use super::claims::read_claims;
use super::file_follower::{self, FollowedFile, read_bounded};
use super::jwks::KeySet;
use super::jwks_follower::{self, check_url};
use super::options::{JwtKeySource, JwtOptions};
use super::token::{TokenError, bearer, verify_signature};
use super::token_cache::{TokenCache, VerifiedToken, token_digest};
use super::{JwtAlgorithm, VerifiedIdentity};
use crate::digest;
use crate::net::Drain;

/// The result of looking for a token in a request.
#[derive(Debug)]
pub(super) enum TokenOutcome {
    /// The request has no bearer token.
    Absent,
    Valid(Arc<VerifiedIdentity>),
    Invalid(TokenError),
}

/// Verifies tokens.
#[derive(Debug)]
pub(super) struct JwtVerifier {
    pub(super) options: JwtOptions,
    keys: ArcSwap<KeySet>,
    cache: TokenCache,
    /// Told when a token names an unknown key.
    pub(super) unknown_key: Notify,
}

impl JwtVerifier {
    fn new(options: &JwtOptions) -> Result<JwtVerifier, String> {
        if options.algorithms.is_empty() {
            return Err("no algorithm of tokens is accepted; name one, such as RS256".to_owned());
        }
        let is_shared = |algorithm: &JwtAlgorithm| algorithm.name().starts_with("HS");
        if let JwtKeySource::Url(url) = &options.keys {
            check_url(url)?;
            if options.algorithms.iter().any(is_shared) {
                return Err(
                    "a shared secret (HS256, HS384, HS512) is never public: put it into a \
                            file, not at a URL"
                        .to_owned(),
                );
            }
        }
        Ok(JwtVerifier {
            options: options.clone(),
            keys: ArcSwap::default(),
            cache: TokenCache::default(),
            unknown_key: Notify::new(),
        })
    }

    /// Reads the keys and follows their changes. A file must be valid; the keys of a URL that does
    /// not answer come later.
    pub(super) async fn open(
        options: &JwtOptions,
        drain: &Drain,
    ) -> Result<Arc<JwtVerifier>, String> {
        let verifier = Arc::new(JwtVerifier::new(options)?);
        if options.audiences.is_empty() {
            tracing::warn!(
                "tokens for any audience are accepted, also those that their issuer made for other \
                 services: set jwt_audience"
            );
        }
        match &options.keys {
            JwtKeySource::File(path) => {
                verifier.read(path)?;
                file_follower::follow(&verifier, drain);
            }
            JwtKeySource::Url(url) => jwks_follower::start(&verifier, url, drain).await?,
        }
        Ok(verifier)
    }

    /// Validates the options, and the file of the keys.
    pub(super) fn check(options: &JwtOptions) -> Result<(), String> {
        let verifier = JwtVerifier::new(options)?;
        match &options.keys {
            JwtKeySource::File(path) => verifier.read(path),
            JwtKeySource::Url(_) => Ok(()),
        }
    }

    fn read(&self, path: &Path) -> Result<(), String> {
        let content = read_bounded(path)?;
        let keys = KeySet::read_file(&content);
        self.set_keys(keys.map_err(|error| format!("{}: {error}", path.display()))?);
        Ok(())
    }

    /// Replaces the keys. Tokens that were verified with the former ones are verified again.
    pub(super) fn set_keys(&self, keys: KeySet) {
        if **self.keys.load() != keys {
            tracing::info!(keys = keys.keys.len(), "the keys of tokens are loaded");
            self.keys.store(Arc::new(keys));
            self.cache.clear();
        }
    }

    /// Reads the file of the keys again. Blocks the thread.
    pub(super) fn reload(&self) {
        match &self.options.keys {
            JwtKeySource::File(_) => FollowedFile::reload(self),
            JwtKeySource::Url(_) => self.unknown_key.notify_one(),
        }
    }

    pub(super) fn is_required(&self) -> bool {
        self.options.required
    }

    /// Verifies the token of a request at a time, in seconds since 1970.
    pub(super) fn token_of(&self, headers: &HeaderMap, unix_s: u64) -> TokenOutcome {
        match bearer(headers) {
            None => TokenOutcome::Absent,
            Some(token) => match token.and_then(|token| self.verify(token, unix_s)) {
                Ok(identity) => TokenOutcome::Valid(identity),
                Err(error) => {
                    tracing::debug!(error = error.as_str(), "a token is not valid");
                    TokenOutcome::Invalid(error)
                }
            },
        }
    }

    fn verify(&self, token: &str, unix_s: u64) -> Result<Arc<VerifiedIdentity>, TokenError> {
        let digest = token_digest(token.as_bytes());
        let leeway_s = self.options.leeway.as_secs();
        if let Some(VerifiedToken { identity, validity }) = self.cache.get(&digest) {
            return match validity.check(unix_s, leeway_s) {
                Ok(()) => Ok(identity),
                Err(error) => {
                    self.cache.remove(&digest);
                    Err(error)
                }
            };
        }
        let keys = self.keys.load();
        let payload =
            verify_signature(token, &keys, &self.options.algorithms).inspect_err(|error| {
                let shown = digest::hex(&digest[..8]);
                tracing::debug!(token = %shown, error = error.as_str(), "a token is rejected");
                if *error == TokenError::UnknownKey {
                    self.unknown_key.notify_one();
                }
            })?;
        let (identity, validity) = read_claims(&payload, &self.options)?;
        validity.check(unix_s, leeway_s)?;
        let identity = Arc::new(identity);
        self.cache.add(digest, VerifiedToken { identity: identity.clone(), validity });
        if !Arc::ptr_eq(&keys, &self.keys.load()) {
            // The keys changed meanwhile, and the cache was cleared before this token came.
            self.cache.remove(&digest);
        }
        Ok(identity)
    }
}

impl FollowedFile for JwtVerifier {
    fn path(&self) -> &Path {
        match &self.options.keys {
            JwtKeySource::File(path) => path,
            JwtKeySource::Url(_) => Path::new(""),
        }
    }

    fn content(&self) -> &'static str {
        "the keys of tokens"
    }

    fn read_again(&self) -> Result<(), String> {
        self.read(self.path())
    }
}
