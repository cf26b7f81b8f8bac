//! API keys: their owners, and the plans of those.

use std::path::Path;

use tollgate_rig::{Upstream, until};
use tollgate_server::config::ApiKeyOptions;

use crate::support::{Gateway, start_with};

/// The hashes of `key-of-acme` and `key-of-tiny`, as sha256sum prints them.
const ACME: &str = "689febd264f8b977e29c0fdb75f839eb248ba07d1561b14f2b95f42756943245";
const TINY: &str = "6e83f5c012c5c0b81be33a1a1975144b76bbaf578ab7d7c969ddbb514ebc56e9";

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rules/api-keys.yaml");
    std::fs::read_to_string(path).unwrap()
}

fn started(file: &Path, header: &str, upstream: &Upstream) -> Gateway {
    start_with(&example(), &[&upstream.url()], |config| {
        let mut options = ApiKeyOptions::new(file);
        options.header = header.to_owned();
        config.identity.api_keys = Some(options);
    })
}

/// Returns how many of 200 requests with a key pass.
fn passed(gateway: &Gateway, header: &str, key: &str) -> usize {
    let mut client = gateway.connect();
    (0..200).filter(|_| client.get_with("/", &[(header, key)]).status() == 200).count()
}

#[test]
fn each_key_has_the_limit_of_its_plan() {
    let (upstream, folder) = (Upstream::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("keys");
    std::fs::write(&file, format!("{ACME} acme pro\n{TINY} tiny free # a trial\n")).unwrap();
    let gateway = started(&file, "x-api-key", &upstream);
    assert_eq!(passed(&gateway, "X-API-Key", "key-of-acme"), 100);
    assert_eq!(passed(&gateway, "X-API-Key", "key-of-tiny"), 10);
    for unknown in ["key-of-none", "", ACME, "key-of-acme, key-of-tiny"] {
        assert_eq!(passed(&gateway, "X-API-Key", unknown), 0, "{unknown:?} is no key");
    }
    let mut client = gateway.connect();
    let answer = client.get("/");
    assert_eq!((answer.status(), answer.text().contains("api key")), (401, false), "{answer:?}");
    let both = [("X-API-Key", "key-of-acme"), ("X-API-Key", "key-of-tiny")];
    assert_eq!(client.get_with("/", &both).status(), 401, "two keys are none");
}

#[test]
fn a_changed_file_of_keys_is_used_and_a_broken_one_is_not() {
    let (upstream, folder) = (Upstream::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("keys");
    std::fs::write(&file, format!("{ACME} acme free\n")).unwrap();
    let gateway = started(&file, "Authorization", &upstream);
    assert_eq!(passed(&gateway, "Authorization", "Bearer key-of-acme"), 10);
    std::fs::write(&file, "not a key\n").unwrap();
    gateway.reload();
    let mut client = gateway.connect();
    let status = |client: &mut tollgate_rig::WebClient, key: &str| {
        client.get_with("/", &[("Authorization", key)]).status()
    };
    assert_eq!(status(&mut client, "Bearer key-of-acme"), 429, "the last valid keys stay");
    std::fs::write(&file, format!("{ACME} acme pro\n{TINY} tiny free\n")).unwrap();
    until("the new key is known", || status(&mut client, "bearer key-of-tiny") == 200);
    assert_eq!(status(&mut client, "Bearer key-of-acme"), 200, "the budget of the new plan");
    std::fs::write(&file, format!("{TINY} tiny free\n")).unwrap();
    until("the key is gone", || status(&mut client, "Bearer key-of-acme") == 401);
}
