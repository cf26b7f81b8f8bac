//! The options of verified identities.

use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;

use super::algorithm::JwtAlgorithm;

/// The sources of verified identities. Without any, rules see only what clients claim.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct IdentityOptions {
    /// How tokens (JWT) of clients are verified.
    pub jwt: Option<JwtOptions>,
    /// The API keys of clients.
    pub api_keys: Option<ApiKeyOptions>,
}

/// The origin of the keys that verify tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwtKeySource {
    /// A file: public keys in PEM, or a JSON Web Key Set. It is read again when it changes.
    File(PathBuf),
    /// A URL that serves a JSON Web Key Set. It is requested again from time to time.
    Url(Uri),
}

/// The options of tokens (JWT) in `Authorization: Bearer`.
///
/// ```
/// use tollgate_server::config::{JwtAlgorithm, JwtKeySource, JwtOptions};
/// let mut options = JwtOptions::new(JwtKeySource::File("issuer.pem".into()));
/// options.audiences = vec!["https://api.example".into()];
/// assert_eq!(options.algorithms, [JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa]);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JwtOptions {
    /// The origin of the keys.
    pub keys: JwtKeySource,
    /// The algorithms that tokens may be signed with. A key also restricts them to its own kind.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The issuers that are accepted (`iss`); any if empty.
    pub issuers: Vec<String>,
    /// The audiences of which a token must name one (`aud`); not checked if empty.
    pub audiences: Vec<String>,
    /// The tolerance for clocks that differ, in `exp` and `nbf`: 30 s unless set.
    pub leeway: Duration,
    /// Whether requests without a valid token are refused with 401. Otherwise they have no `jwt.…`
    /// attributes.
    pub required: bool,
    /// The time after which a URL is requested again: five minutes unless set.
    pub refresh: Duration,
}

impl JwtOptions {
    /// Creates options with the defaults.
    pub fn new(keys: JwtKeySource) -> JwtOptions {
        JwtOptions {
            keys,
            algorithms: vec![JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa],
            issuers: Vec::new(),
            audiences: Vec::new(),
            leeway: Duration::from_secs(30),
            required: false,
            refresh: Duration::from_secs(300),
        }
    }
}

/// The options of API keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApiKeyOptions {
    /// The file of the keys' hashes, with names and plans. It is read again when it changes.
    pub file: PathBuf,
    /// The header field with the key: `X-API-Key` unless set. In `Authorization`, the key follows
    /// `Bearer`.
    pub header: String,
}

impl ApiKeyOptions {
    /// Creates options with the default header field.
    pub fn new(file: impl Into<PathBuf>) -> ApiKeyOptions {
        ApiKeyOptions { file: file.into(), header: "x-api-key".to_owned() }
    }
}
