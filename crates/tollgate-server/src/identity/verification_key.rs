//! Keys that verify signatures. The kind of a key decides which algorithms it verifies, whatever a
//! token says: an RSA key is never the secret of an HMAC.

use ring::{hmac, signature};

use super::algorithm::JwtAlgorithm;

/// The number of keys of a set, and so of signatures that are checked for one token.
pub(super) const MAX_KEYS: usize = 64;
/// The minimum length of a shared secret, in bytes: that of the hash (RFC 7518, 3.2).
pub(super) const MIN_SECRET_BYTES: usize = 32;

/// The value of a key.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum KeyMaterial {
    /// An RSA key: modulus and exponent.
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An RSA key as DER of PKCS #1.
    RsaDer(Vec<u8>),
    /// A point on P-256, uncompressed.
    P256(Vec<u8>),
    /// A point on P-384, uncompressed.
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    /// A secret that the issuer shares.
    Shared(Vec<u8>),
}

/// A key that verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct VerificationKey {
    /// The name by which tokens refer to the key (`kid`).
    pub(super) id: Option<String>,
    /// The only algorithm of the key, if its set says so.
    pub(super) algorithm: Option<JwtAlgorithm>,
    pub(super) material: KeyMaterial,
}

impl std::fmt::Debug for VerificationKey {
    /// Shows no key: it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerificationKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl VerificationKey {
    /// Returns whether the key could have signed a token with this algorithm and `kid`.
    pub(super) fn suits(&self, algorithm: JwtAlgorithm, id: Option<&str>) -> bool {
        use JwtAlgorithm as A;
        let is_kind = match self.material {
            KeyMaterial::Rsa { .. } | KeyMaterial::RsaDer(_) => {
                matches!(algorithm, A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512)
            }
            KeyMaterial::P256(_) => algorithm == A::Es256,
            KeyMaterial::P384(_) => algorithm == A::Es384,
            KeyMaterial::Ed25519(_) => algorithm == A::EdDsa,
            KeyMaterial::Shared(_) => matches!(algorithm, A::Hs256 | A::Hs384 | A::Hs512),
        };
        // A key or a token without a name is tried: only the signature decides.
        let is_named = match (self.id.as_deref(), id) {
            (Some(own), Some(id)) => own == id,
            _ => true,
        };
        is_kind && is_named && self.algorithm.is_none_or(|only| only == algorithm)
    }

    /// Returns whether the key made the signature of a message.
    pub(super) fn verifies(
        &self,
        algorithm: JwtAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let check = |kind: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            signature::UnparsedPublicKey::new(kind, key).verify(message, signature).is_ok()
        };
        match &self.material {
            KeyMaterial::Rsa { modulus, exponent } => {
                rsa_parameters(algorithm).is_some_and(|rsa| {
                    let key = signature::RsaPublicKeyComponents { n: modulus, e: exponent };
                    key.verify(rsa, message, signature).is_ok()
                })
            }
            KeyMaterial::RsaDer(key) => {
                rsa_parameters(algorithm).is_some_and(|rsa| check(rsa, key))
            }
            KeyMaterial::P256(key) if algorithm == JwtAlgorithm::Es256 => {
                check(&signature::ECDSA_P256_SHA256_FIXED, key)
            }
            KeyMaterial::P384(key) if algorithm == JwtAlgorithm::Es384 => {
                check(&signature::ECDSA_P384_SHA384_FIXED, key)
            }
            KeyMaterial::Ed25519(key) if algorithm == JwtAlgorithm::EdDsa => {
                check(&signature::ED25519, key)
            }
            KeyMaterial::Shared(secret) => hmac_algorithm(algorithm).is_some_and(|kind| {
                hmac::verify(&hmac::Key::new(kind, secret), message, signature).is_ok()
            }),
            _ => false,
        }
    }
}

fn rsa_parameters(algorithm: JwtAlgorithm) -> Option<&'static signature::RsaParameters> {
    Some(match algorithm {
        JwtAlgorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        JwtAlgorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        JwtAlgorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        JwtAlgorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        JwtAlgorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        JwtAlgorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn hmac_algorithm(algorithm: JwtAlgorithm) -> Option<hmac::Algorithm> {
    match algorithm {
        JwtAlgorithm::Hs256 => Some(hmac::HMAC_SHA256),
        JwtAlgorithm::Hs384 => Some(hmac::HMAC_SHA384),
        JwtAlgorithm::Hs512 => Some(hmac::HMAC_SHA512),
        _ => None,
    }
}
