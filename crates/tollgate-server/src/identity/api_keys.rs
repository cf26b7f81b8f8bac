//! API keys of clients: a file of their hashes, with the name and the plan of each client.
//!
//! ```text
//! # sha256 of the key                                             name   plan
//! 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 acme   pro
//! ```
//!
//! `printf %s KEY | sha256sum` prints the hash of a key. The keys themselves are in no file, so a copy
//! of the file is no access. They must be long and random: a short one can be guessed from its hash.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName};
use tollgate_rules::Value;

use super::VerifiedIdentity;
use super::file_follower::{FollowedFile, read_bounded};
use super::options::ApiKeyOptions;
use super::token_cache::{TokenDigest, token_digest};

const NAME: &str = "apikey.name";
const PLAN: &str = "apikey.plan";

/// The owners of keys, by the SHA-256 of the key.
type KeyOwners = HashMap<TokenDigest, Arc<VerifiedIdentity>>;

/// The API keys of clients.
#[derive(Debug)]
pub(super) struct ApiKeys {
    path: PathBuf,
    header: HeaderName,
    owners: ArcSwap<KeyOwners>,
}

impl ApiKeys {
    /// Reads the file of the keys.
    pub(super) fn open(options: &ApiKeyOptions) -> Result<Arc<ApiKeys>, String> {
        let header = options.header.parse();
        let header =
            header.map_err(|_| format!("{:?} is no name of a header field", options.header))?;
        let keys = ApiKeys { path: options.file.clone(), header, owners: ArcSwap::default() };
        keys.read_again()?;
        Ok(Arc::new(keys))
    }

    /// Returns the owner of the key in a request; `None` without a known key.
    pub(super) fn owner(&self, headers: &HeaderMap) -> Option<Arc<VerifiedIdentity>> {
        let mut values = headers.get_all(&self.header).iter();
        let (only, second) = (values.next()?, values.next());
        if second.is_some() {
            return None;
        }
        let mut key = only.as_bytes().trim_ascii();
        if self.header == AUTHORIZATION {
            let (scheme, rest) = key.split_at_checked("bearer ".len())?;
            if !scheme.eq_ignore_ascii_case(b"bearer ") {
                return None;
            }
            key = rest.trim_ascii();
        }
        self.owners.load().get(&token_digest(key)).cloned()
    }
}

/// Reads the lines of a file: hash, name, plan.
fn read_owners(text: &str) -> Result<KeyOwners, String> {
    let mut owners = KeyOwners::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let at = |why: &str| format!("line {}: {why}", number + 1);
        let mut words = line.split_ascii_whitespace();
        let (hash, name, plan) = (words.next(), words.next(), words.next());
        let hash = hash.unwrap_or_default();
        let hash = hash.strip_prefix("sha256:").unwrap_or(hash);
        let digest = digest_of(hash).ok_or_else(|| {
            at("write the SHA-256 of the key in 64 digits, then a name and a plan; \
                `printf %s KEY | sha256sum` prints it")
        })?;
        let name = name.ok_or_else(|| at("a name follows the hash"))?;
        if words.next().is_some() {
            return Err(at("there are more words than hash, name and plan"));
        }
        let text = |text: &str| Value::Text(text.to_owned().into());
        let mut attributes = vec![(NAME.to_owned(), text(name))];
        attributes.extend(plan.map(|plan| (PLAN.to_owned(), text(plan))));
        if owners.insert(digest, Arc::new(VerifiedIdentity { attributes })).is_some() {
            return Err(at("the key is there twice"));
        }
    }
    Ok(owners)
}

fn digest_of(hex: &str) -> Option<TokenDigest> {
    let mut digest = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

impl FollowedFile for ApiKeys {
    fn path(&self) -> &Path {
        &self.path
    }

    fn content(&self) -> &'static str {
        "the API keys"
    }

    fn read_again(&self) -> Result<(), String> {
        let content = read_bounded(&self.path)?;
        let path = self.path.display();
        let text = std::str::from_utf8(&content).map_err(|_| format!("{path} is not UTF-8"))?;
        let owners = read_owners(text).map_err(|error| format!("{path}: {error}"))?;
        tracing::info!(keys = owners.len(), "the API keys are loaded");
        self.owners.store(Arc::new(owners));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    #[test]
    fn a_file_has_a_hash_a_name_and_a_plan_in_each_line() {
        let owners = read_owners(&format!("# keys\n\n{TEST} acme pro # 2026\n")).unwrap();
        let owner = &owners[&digest_of(TEST).unwrap()];
        assert_eq!(owner.attributes[0], (NAME.to_owned(), Value::from("acme")));
        assert_eq!(owner.attributes[1], (PLAN.to_owned(), Value::from("pro")));
        let upper = TEST.to_uppercase();
        assert_eq!(read_owners(&format!("sha256:{upper} acme")).unwrap().len(), 1);
        for (wrong, why) in [
            ("secret-key acme pro", "line 1: write the SHA-256"),
            (TEST, "line 1: a name follows"),
            (&format!("{TEST} a b c"), "line 1: there are more words"),
            (&format!("{TEST} a b\n{TEST} c d"), "line 2: the key is there twice"),
        ] {
            let found = read_owners(wrong).unwrap_err();
            assert!(found.contains(why), "{found}");
            assert!(!found.contains("secret-key"), "a key is not shown");
        }
    }
}
