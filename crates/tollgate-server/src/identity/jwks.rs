//! JSON Web Key Sets (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::algorithm::JwtAlgorithm;
use super::pem::read_pem;
use super::verification_key::{KeyMaterial, MAX_KEYS, MIN_SECRET_BYTES, VerificationKey};

/// The keys that verify tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet {
    pub(super) keys: Vec<VerificationKey>,
}

/// Whether shared secrets are accepted: a file may contain them, a URL must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharedSecrets {
    Accepted,
    Ignored,
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<serde_json::Value>,
}

/// A key of a set; members of other kinds of keys are missing.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    used_for: Option<String>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

impl KeySet {
    /// Reads the content of a file: a JSON Web Key Set, or public keys in PEM.
    pub(super) fn read_file(content: &[u8]) -> Result<KeySet, String> {
        match content.trim_ascii_start().first() {
            Some(b'{') => KeySet::read_jwks(content, SharedSecrets::Accepted),
            _ => read_pem(content).map(|keys| KeySet { keys }),
        }
    }

    /// Reads a JSON Web Key Set. As the standard says, keys of unknown kinds are ignored; a set
    /// without any other key is an error.
    pub(super) fn read_jwks(content: &[u8], shared: SharedSecrets) -> Result<KeySet, String> {
        let set: Jwks = serde_json::from_slice(content)
            .map_err(|error| format!("it is no JSON Web Key Set: {error}"))?;
        if set.keys.len() > MAX_KEYS {
            return Err(format!("it has {} keys; {MAX_KEYS} are allowed", set.keys.len()));
        }
        let mut keys = Vec::new();
        for key in set.keys {
            let Ok(key) = serde_json::from_value::<Jwk>(key) else { continue };
            if key.used_for.as_deref().is_some_and(|used_for| used_for != "sig") {
                continue;
            }
            if key.kty == "oct" && shared == SharedSecrets::Ignored {
                continue;
            }
            keys.extend(verification_key(key)?);
        }
        match keys.is_empty() {
            true => Err("it has no key for signatures of a known kind".to_owned()),
            false => Ok(KeySet { keys }),
        }
    }
}

/// Returns the key; `None` if it is of an unknown kind.
fn verification_key(key: Jwk) -> Result<Option<VerificationKey>, String> {
    let name = key.kid.as_deref().unwrap_or("without a kid").to_owned();
    let bytes = |member: &str, value: &Option<String>| {
        let value = value.as_deref().ok_or_else(|| format!("the key {name:?} lacks `{member}`"))?;
        let decoded = URL_SAFE_NO_PAD.decode(value);
        decoded.map_err(|_| format!("`{member}` of the key {name:?} is not base64url"))
    };
    let point = |length: usize| {
        let (x, y) = (bytes("x", &key.x)?, bytes("y", &key.y)?);
        match x.len() == length && y.len() == length {
            true => Ok([&[4][..], &x, &y].concat()),
            false => Err(format!("the point of the key {name:?} has the wrong length")),
        }
    };
    let without_zeros = |mut number: Vec<u8>| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number.drain(..zeros);
        number
    };
    let material = match (key.kty.as_str(), key.crv.as_deref()) {
        ("RSA", _) => KeyMaterial::Rsa {
            modulus: without_zeros(bytes("n", &key.n)?),
            exponent: without_zeros(bytes("e", &key.e)?),
        },
        ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
        ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
        ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes("x", &key.x)?),
        ("oct", _) => {
            let secret = bytes("k", &key.k)?;
            if secret.len() < MIN_SECRET_BYTES {
                return Err(format!(
                    "the secret {name:?} has {} bytes; it needs at least {MIN_SECRET_BYTES}",
                    secret.len()
                ));
            }
            KeyMaterial::Shared(secret)
        }
        _ => return Ok(None),
    };
    let algorithm = match key.alg.as_deref() {
        None => None,
        Some(name) => match JwtAlgorithm::of_name(name) {
            Some(algorithm) => Some(algorithm),
            None => return Ok(None),
        },
    };
    Ok(Some(VerificationKey { id: key.kid, algorithm, material }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<usize, String> {
        KeySet::read_file(text.as_bytes()).map(|set| set.keys.len())
    }

    #[test]
    fn unknown_keys_are_ignored_and_broken_ones_are_errors() {
        let known =
            r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        let unknown = r#"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"},{"kty":"new"},7"#;
        assert_eq!(read(&format!(r#"{{"keys":[{unknown},{known}]}}"#)), Ok(1));
        assert!(read(&format!(r#"{{"keys":[{unknown}]}}"#)).is_err());
        let encrypting = known.replace("{", r#"{"use":"enc","#);
        assert!(read(&format!(r#"{{"keys":[{encrypting}]}}"#)).is_err());
        let foreign = known.replace("{", r#"{"alg":"none","#);
        assert!(read(&format!(r#"{{"keys":[{foreign}]}}"#)).is_err());
        for (broken, error) in [
            (r#"{"kty":"RSA","e":"AQAB","kid":"a"}"#, "the key \"a\" lacks `n`"),
            (r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#, "wrong length"),
            (r#"{"kty":"oct","k":"c2hvcnQ"}"#, "needs at least 32"),
            (r#"{"kty":"OKP","crv":"Ed25519","x":"a+b="}"#, "not base64url"),
        ] {
            let found = read(&format!(r#"{{"keys":[{known},{broken}]}}"#)).unwrap_err();
            assert!(found.contains(error), "{found}");
        }
        let many = vec![known; 65].join(",");
        assert!(read(&format!(r#"{{"keys":[{many}]}}"#)).unwrap_err().contains("64 are allowed"));
    }

    #[test]
    fn shared_secrets_come_from_files_only() {
        let secret =
            r#"{"keys":[{"kty":"oct","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;
        assert_eq!(read(secret), Ok(1));
        assert!(KeySet::read_jwks(secret.as_bytes(), SharedSecrets::Ignored).is_err());
        let set = KeySet::read_file(secret.as_bytes()).unwrap();
        assert!(!format!("{set:?}").contains("0123"), "a secret is not shown");
    }

    #[test]
    fn a_file_without_public_keys_says_how_to_get_one() {
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            assert!(read(text).unwrap_err().contains("openssl"), "{text}");
        }
        let key = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n\
                   -----END PUBLIC KEY-----";
        assert_eq!(read(key), Ok(1));
        assert_eq!(read(&format!("{key}\n{key}\n")), Ok(2));
        let joined = read(&format!("{key}{key}")).unwrap_err();
        assert!(joined.contains("of 2 public keys, 1 can be read"), "{joined}");
        let cut = key.replace("MCow", "AAAA");
        assert!(read(&cut).unwrap_err().contains("another kind"));
    }
}
