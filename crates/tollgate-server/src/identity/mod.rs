//! Verified identities of clients, as attributes for rules: the claims of a token (JWT), and the owner
//! of an API key.
//!
//! A client can write anything into a header. So a claim becomes an attribute (`jwt.sub`) only after
//! its signature, its dates, its issuer and its audience were checked, and the owner of an API key
//! (`apikey.name`) only if the key is listed. A request without a valid token has no such attributes.

mod algorithm;
mod api_keys;
mod claims;
mod file_follower;
mod jwks;
mod jwks_follower;
mod options;
mod pem;
mod token;
mod token_cache;
mod verification_key;
mod verifier;

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};
use smallvec::SmallVec;
use tollgate::Clock;
use tollgate_rules::{Request, Value};
use tollgate_tower::request_head::RequestHead;

use crate::net::Drain;
use crate::server::StartError;
use api_keys::ApiKeys;
use verifier::{JwtVerifier, TokenOutcome};

pub use algorithm::JwtAlgorithm;
pub use options::{ApiKeyOptions, IdentityOptions, JwtKeySource, JwtOptions};

/// The attributes of one identity: those of a token, or of an API key.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct VerifiedIdentity {
    attributes: Vec<(String, Value<'static>)>,
}

/// The verified identities of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestIdentity(SmallVec<[Arc<VerifiedIdentity>; 1]>);

impl RequestIdentity {
    /// Returns the attributes, with their names.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&str, &Value<'static>)> {
        let all = self.0.iter().flat_map(|identity| &identity.attributes);
        all.map(|(name, value)| (name.as_str(), value))
    }

    /// Adds the attributes to the head of their request.
    pub(crate) fn add_to<'a>(&'a self, request_head: RequestHead<'a>) -> RequestHead<'a> {
        self.attributes().fold(request_head, |request_head, (name, value)| {
            request_head.attribute(name, value.clone())
        })
    }

    /// Adds the attributes to a request.
    pub(crate) fn add_to_request<'a>(&'a self, request: Request<'a>) -> Request<'a> {
        self.attributes()
            .fold(request, |request, (name, value)| request.attribute(name, value.clone()))
    }
}

/// The reason why a request is refused with 401, where a valid token is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unauthorized {
    pub(crate) detail: &'static str,
    challenge: &'static str,
}

impl Unauthorized {
    /// Returns the header field that a response with status 401 must have.
    pub(crate) fn header(self) -> (HeaderName, HeaderValue) {
        (WWW_AUTHENTICATE, HeaderValue::from_static(self.challenge))
    }
}

/// The sources of identities that a server is configured with.
#[derive(Debug, Default)]
pub(crate) struct IdentitySources {
    jwt: Option<Arc<JwtVerifier>>,
    api_keys: Option<Arc<ApiKeys>>,
}

impl IdentitySources {
    /// Reads the keys, and starts to follow their changes until the server drains.
    pub(crate) async fn open(
        options: &IdentityOptions,
        drain: &Drain,
    ) -> Result<IdentitySources, StartError> {
        let failed = |error: String| StartError::Identity(error);
        let jwt = match &options.jwt {
            Some(options) => Some(JwtVerifier::open(options, drain).await.map_err(failed)?),
            None => None,
        };
        let api_keys = options.api_keys.as_ref().map(ApiKeys::open).transpose().map_err(failed)?;
        if let Some(api_keys) = &api_keys {
            file_follower::follow(api_keys, drain);
        }
        Ok(IdentitySources { jwt, api_keys })
    }

    /// Validates the options without following anything. Blocks the thread.
    pub(crate) fn check(options: &IdentityOptions) -> Result<(), StartError> {
        let jwt = options.jwt.as_ref().map_or(Ok(()), JwtVerifier::check);
        let api_keys =
            || options.api_keys.as_ref().map_or(Ok(()), |keys| ApiKeys::open(keys).map(drop));
        jwt.and_then(|()| api_keys()).map_err(StartError::Identity)
    }

    /// Reads the files again. Blocks the thread.
    pub(crate) fn reload(&self) {
        self.jwt.iter().for_each(|jwt| jwt.reload());
        self.api_keys.iter().for_each(|api_keys| file_follower::FollowedFile::reload(&**api_keys));
    }

    /// Returns the verified identities in the header fields of a request.
    #[inline]
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        clock: &Clock,
    ) -> Result<RequestIdentity, Unauthorized> {
        let mut identity = RequestIdentity::default();
        if let Some(api_keys) = &self.api_keys {
            identity.0.extend(api_keys.owner(headers));
        }
        if let Some(jwt) = &self.jwt {
            let unix_s = clock.date(clock.now()).as_nanos() / 1_000_000_000;
            match jwt.token_of(headers, unix_s) {
                TokenOutcome::Valid(claims) => identity.0.push(claims),
                TokenOutcome::Absent if jwt.is_required() => {
                    return Err(Unauthorized {
                        detail: "a token is needed: send `Authorization: Bearer` and a JWT",
                        challenge: "Bearer",
                    });
                }
                TokenOutcome::Invalid(error) if jwt.is_required() => {
                    return Err(Unauthorized {
                        detail: error.as_str(),
                        challenge: "Bearer error=\"invalid_token\"",
                    });
                }
                TokenOutcome::Absent | TokenOutcome::Invalid(_) => {}
            }
        }
        Ok(identity)
    }
}
