//! The parts of a token (JWT), and what can be wrong with it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::algorithm::JwtAlgorithm;
use super::jwks::KeySet;

/// The maximum length of a token, in bytes.
pub(super) const MAX_TOKEN_BYTES: usize = 8 << 10;

/// The reason why a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    Repeated,
    TooLong,
    Malformed,
    Algorithm,
    Critical,
    UnknownKey,
    Signature,
    WrongIssuer,
    WrongAudience,
    Expired,
    NotYetValid,
    TooManyClaims,
}

impl TokenError {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            TokenError::Repeated => "there are several tokens in the request",
            TokenError::TooLong => "the token is longer than 8 KiB",
            TokenError::Malformed => "the token is not well formed",
            TokenError::Algorithm => "the token is signed with an algorithm that is not accepted",
            TokenError::Critical => "the token has a critical header that is not understood",
            TokenError::UnknownKey => "the token is signed with an unknown key",
            TokenError::Signature => "the signature of the token is wrong",
            TokenError::WrongIssuer => "the token is of another issuer",
            TokenError::WrongAudience => "the token is for another audience",
            TokenError::Expired => "the token has expired",
            TokenError::NotYetValid => "the token is not valid yet",
            TokenError::TooManyClaims => "the token has too many claims",
        }
    }
}

/// Returns the bearer token of a request; `None` if it has none.
pub(super) fn bearer(headers: &HeaderMap) -> Option<Result<&str, TokenError>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (values.next()?, values.next());
    if second.is_some() {
        return Some(Err(TokenError::Repeated));
    }
    let Ok(value) = first.to_str() else { return Some(Err(TokenError::Malformed)) };
    let (scheme, token) = value.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let token = token.trim_start();
    Some(match token.len() <= MAX_TOKEN_BYTES {
        true => Ok(token),
        false => Err(TokenError::TooLong),
    })
}

/// The members of a token's header that count. Others are ignored: a key in the token itself (`jwk`),
/// or its address (`jku`, `x5u`), proves nothing.
#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// Verifies the signature of a token, and returns its payload.
pub(super) fn verify_signature(
    token: &str,
    keys: &KeySet,
    algorithms: &[JwtAlgorithm],
) -> Result<Vec<u8>, TokenError> {
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    if payload.contains('.') {
        return Err(TokenError::Malformed);
    }
    let header: TokenHeader =
        serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed)?;
    if header.crit.is_some() {
        return Err(TokenError::Critical);
    }
    let algorithm = JwtAlgorithm::of_name(&header.alg).ok_or(TokenError::Algorithm)?;
    if !algorithms.contains(&algorithm) {
        return Err(TokenError::Algorithm);
    }
    let (signature, payload) = (decode(signature)?, decode(payload)?);
    let suits = |key: &&_| {
        super::verification_key::VerificationKey::suits(key, algorithm, header.kid.as_deref())
    };
    let mut suitable = keys.keys.iter().filter(suits).peekable();
    if suitable.peek().is_none() {
        return Err(TokenError::UnknownKey);
    }
    match suitable.any(|key| key.verifies(algorithm, signed.as_bytes(), &signature)) {
        true => Ok(payload),
        false => Err(TokenError::Signature),
    }
}
