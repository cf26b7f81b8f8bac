//! The algorithms of signatures.

use std::fmt;
use std::str::FromStr;

/// An algorithm that tokens are signed with, by its name in RFC 7518 and RFC 8037. There is no `none`.
///
/// ```
/// use tollgate_server::config::JwtAlgorithm;
/// assert_eq!("RS256".parse(), Ok(JwtAlgorithm::Rs256));
/// assert!("none".parse::<JwtAlgorithm>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwtAlgorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// RSA with PKCS #1 v1.5 and SHA-384.
    Rs384,
    /// RSA with PKCS #1 v1.5 and SHA-512.
    Rs512,
    /// RSA with PSS and SHA-256.
    Ps256,
    /// RSA with PSS and SHA-384.
    Ps384,
    /// RSA with PSS and SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// EdDSA on Ed25519.
    EdDsa,
    /// HMAC with SHA-256: a secret that the issuer shares, only from a file.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
}

impl JwtAlgorithm {
    const ALL: [JwtAlgorithm; 12] = [
        JwtAlgorithm::Rs256,
        JwtAlgorithm::Rs384,
        JwtAlgorithm::Rs512,
        JwtAlgorithm::Ps256,
        JwtAlgorithm::Ps384,
        JwtAlgorithm::Ps512,
        JwtAlgorithm::Es256,
        JwtAlgorithm::Es384,
        JwtAlgorithm::EdDsa,
        JwtAlgorithm::Hs256,
        JwtAlgorithm::Hs384,
        JwtAlgorithm::Hs512,
    ];

    /// Returns the name in the header of a token.
    pub fn name(self) -> &'static str {
        match self {
            JwtAlgorithm::Rs256 => "RS256",
            JwtAlgorithm::Rs384 => "RS384",
            JwtAlgorithm::Rs512 => "RS512",
            JwtAlgorithm::Ps256 => "PS256",
            JwtAlgorithm::Ps384 => "PS384",
            JwtAlgorithm::Ps512 => "PS512",
            JwtAlgorithm::Es256 => "ES256",
            JwtAlgorithm::Es384 => "ES384",
            JwtAlgorithm::EdDsa => "EdDSA",
            JwtAlgorithm::Hs256 => "HS256",
            JwtAlgorithm::Hs384 => "HS384",
            JwtAlgorithm::Hs512 => "HS512",
        }
    }

    /// Returns the algorithm of a name. Names are case-sensitive.
    pub(super) fn of_name(name: &str) -> Option<JwtAlgorithm> {
        JwtAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

impl FromStr for JwtAlgorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<JwtAlgorithm, String> {
        JwtAlgorithm::of_name(text).ok_or_else(|| {
            let names = JwtAlgorithm::ALL.map(JwtAlgorithm::name).join(", ");
            format!("{text:?} is no algorithm of tokens; there are {names}")
        })
    }
}

impl fmt::Display for JwtAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
