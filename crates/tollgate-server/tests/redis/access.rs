//! The user that `docs/redis.md` describes may do what is needed, and nothing else.

use tollgate_rig::{Client, Flavour, Reply, Setup};
use tollgate_server::config::RedisOptions;

use crate::support::{PATIENT, start_with};

/// The line of the docs that makes the user.
fn documented(flavour: Flavour) -> &'static str {
    let docs = include_str!("../../../../docs/redis.md");
    let wanted = if flavour == Flavour::Redis62 { " +evalsha " } else { " +fcall " };
    let mut lines = docs.lines();
    let line = lines.find(|line| line.starts_with("user tollgate ") && line.contains(wanted));
    line.expect("the docs say which rights are needed")
}

/// What an entry of the log of refusals is about.
fn object(entry: &Reply) -> String {
    let mut pairs = entry.list().chunks(2);
    pairs.find(|pair| pair[0].text() == "object").map(|pair| pair[1].text()).unwrap()
}

#[test]
fn the_documented_rights_are_enough_and_no_more() {
    let rules = "
rules:
  - { name: plain, per: user, limit: [10/h fixed, 20/s, 30/h sliding, 40/h log, 5 concurrent] }
  - { name: devices, per: user, limit: 3 distinct device/h }
  - { name: guard, when: user == 'eve', per: user, limit: 1/h, then: ban 1h }
";
    for flavour in Flavour::ALL {
        let line = documented(flavour).replace(">password", ">s3cret");
        let users = format!("user default on nopass ~* &* +@all\n{line}\n");
        let redis = Setup::new(flavour).users(users).start();
        let url = redis.url().replace("redis://", "redis://tollgate:s3cret@");
        let options: RedisOptions = url.parse().unwrap();
        let server = start_with(rules, options.timeout(PATIENT).unwrap());
        let mut http = server.http();
        for turn in 0..5 {
            let body = serde_json::json!({ "attributes": { "user": "ann", "device": "phone" } });
            assert_eq!(http.post("/v1/check", &body).1["allowed"], true, "{flavour:?} {turn}");
        }
        for path in ["/v1/peek", "/v1/refund", "/v1/reset"] {
            let body = serde_json::json!({ "key": "mail", "limit": "3/h fixed" });
            assert_eq!(http.post(path, &body).0, 200, "{flavour:?} {path}");
        }
        assert_eq!(http.check("eve")["allowed"], true, "{flavour:?}");
        assert_eq!(http.check("eve")["reason"], "banned", "{flavour:?}");
        assert_eq!(server.store_state(), "well");
        // Servers that know how to be told a name, and may not be, go on without.
        let log = redis.command(&["ACL", "LOG"]).unwrap();
        let refused: Vec<_> = log.list().iter().map(object).collect();
        assert!(refused.iter().all(|what| what.starts_with("client")), "{flavour:?}: {refused:?}");

        let mut user = Client::connect(redis.port()).unwrap();
        user.command(&["AUTH", "tollgate", "s3cret"]).unwrap();
        for forbidden in [
            &["FLUSHALL"][..],
            &["KEYS", "*"],
            &["CONFIG", "GET", "*"],
            &["GET", "other"],
            &["SET", "other", "1"],
            &["EVAL", "return redis.call('GET', KEYS[1])", "1", "other"],
        ] {
            let error = user.command(forbidden).unwrap_err().to_string();
            assert!(
                error.contains("NOPERM") || error.contains("permission"),
                "{forbidden:?}: {error}"
            );
        }
    }
}
