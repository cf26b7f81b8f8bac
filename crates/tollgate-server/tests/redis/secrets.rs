//! Secrets in the keys of a shared store.

use serde_json::json;
use tollgate_rig::{Client, Redis, until};
use tollgate_server::config::KeySecret;

use crate::support::{LONG_TIMEOUT, start, start_configured};

const RULES: &str = r#"
attributes: [user]
rules:
  - { name: api, when: 'has(header["x-api-key"])', per: 'header["x-api-key"]', limit: 3/h fixed first_hit, then: 'ban [2h]' }
  - { name: plain, when: has(user), per: user, limit: 3/h fixed first_hit }
"#;
const SECRET: &str = "s3cret-value-of-ann";

/// Returns the names of all keys, and the texts that servers share.
fn names(redis: &Redis) -> String {
    let mut client = Client::connect(redis.port()).unwrap();
    let mut names = String::new();
    for command in [&["KEYS", "*"][..], &["ZRANGE", "tollgate:notes", "0", "-1"]] {
        let reply = client.command(command).unwrap();
        reply.list().iter().for_each(|name| names += &format!("{}\n", name.text()));
    }
    names
}

#[test]
fn servers_share_the_counters_of_a_secret_without_storing_it() {
    let redis = Redis::start();
    let url = redis.url();
    let servers = [start(RULES, &url, LONG_TIMEOUT), start(RULES, &url, LONG_TIMEOUT)];
    let body = json!({ "attributes": { "header.x-api-key": SECRET } });
    let replies: Vec<_> =
        (0..4).map(|n| servers[n % 2].http().post("/v1/check", &body).1).collect();
    let allowed: Vec<bool> = replies.iter().map(|reply| reply["allowed"] == true).collect();
    assert_eq!(allowed, [true, true, true, false], "{replies:?}");
    assert_eq!(replies[0]["key"], replies[1]["key"]);
    let bans = servers[0].admin("GET", "/v1/bans").1;
    assert_eq!(bans["bans"][0]["key"], replies[0]["key"], "{bans}");
    servers[0].http().check("ann");
    let names = names(&redis);
    assert!(!names.contains(SECRET), "{names}");
    assert!(names.contains(replies[0]["key"].as_str().unwrap()), "{names}");
    assert!(names.contains("{ann}"), "other keys are as before: {names}");
    // A server that starts later hashes alike.
    let third = start(RULES, &url, LONG_TIMEOUT);
    assert_eq!(third.http().post("/v1/check", &body).1["key"], replies[0]["key"]);
}

#[test]
fn a_configured_secret_is_not_in_the_store() {
    let redis = Redis::start();
    let options = || redis.url().parse::<tollgate_server::config::RedisOptions>().unwrap();
    let with = |bytes: [u8; 16]| {
        start_configured(RULES, options(), |config| config.key_secret = Some(KeySecret::new(bytes)))
    };
    let key = |bytes| {
        let body = json!({ "attributes": { "header.x-api-key": SECRET } });
        with(bytes).http().post("/v1/check", &body).1["key"].as_str().unwrap().to_owned()
    };
    let one = key([1; 16]);
    assert_eq!(key([1; 16]), one);
    assert_ne!(key([2; 16]), one);
    assert!(!names(&redis).contains("key-secret"));
}

#[test]
fn a_server_that_starts_without_the_store_adopts_its_secret() {
    let redis = Redis::start();
    let url = redis.url();
    let body = json!({ "attributes": { "header.x-api-key": SECRET } });
    let first = start(RULES, &url, LONG_TIMEOUT);
    let shared = first.http().post("/v1/peek", &body).1["key"].as_str().unwrap().to_owned();
    redis.stop();
    let late = start(RULES, &url, LONG_TIMEOUT);
    redis.cont();
    until("the same hash", || late.http().post("/v1/peek", &body).1["key"] == *shared);
}
