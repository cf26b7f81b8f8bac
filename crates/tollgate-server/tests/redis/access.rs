//! The Redis user that `docs/redis.md` describes has the rights that are needed, and no others.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tollgate_rig::{AfterResponse, Client, Flavour, Redis, Reply, Setup, Upstream, until};
use tollgate_server::config::{GatewayOptions, RedisOptions};
use tollgate_server::net::Bind;

use crate::support::{LONG_TIMEOUT, TestServer, start_configured, start_with};

const DOCS: &str = include_str!("../../../../docs/redis.md");

/// Returns the line of the docs that creates the user.
fn documented(flavour: Flavour) -> &'static str {
    let wanted = if flavour == Flavour::Redis62 { " +evalsha " } else { " +fcall " };
    let mut lines = DOCS.lines();
    let line = lines.find(|line| line.starts_with("user tollgate ") && line.contains(wanted));
    line.expect("the docs list the rights")
}

/// Returns the additional rights of gateways.
fn documented_for_gateways() -> &'static str {
    let mut lines = DOCS.lines();
    lines.find(|line| line.starts_with("+hget ")).expect("the docs list the rights of gateways")
}

/// Starts a Redis server with the documented user; returns the options to connect as that user.
fn start_redis(flavour: Flavour, more: &str) -> (Redis, RedisOptions) {
    let line = documented(flavour).replace(">password", ">s3cret");
    let users = format!("user default on nopass ~* &* +@all\n{line} {more}\n");
    let redis = Setup::new(flavour).users(users).start();
    let url = redis.url().replace("redis://", "redis://tollgate:s3cret@");
    let options: RedisOptions = url.parse().unwrap();
    (redis, options.timeout(LONG_TIMEOUT).unwrap())
}

/// Returns what the user was refused, except `CLIENT` commands, which are optional.
fn refused(redis: &Redis) -> Vec<String> {
    let log = redis.command(&["ACL", "LOG"]).unwrap();
    let objects = log.list().iter().map(object);
    objects.filter(|object| !object.starts_with("client")).collect()
}

/// Returns the object of an entry of the ACL log.
fn object(entry: &Reply) -> String {
    let mut pairs = entry.list().chunks(2);
    pairs.find(|pair| pair[0].text() == "object").map(|pair| pair[1].text()).unwrap()
}

#[test]
fn the_documented_rights_are_sufficient_and_minimal() {
    let rules = "
attributes: [device, user]
rules:
  - { name: plain, per: user, limit: [10/h fixed first_hit, 20/s, 30/h sliding, 40/h log, 5 concurrent] }
  - { name: devices, per: user, limit: 3 distinct device/h }
  - { name: guard, when: user == 'eve', per: user, limit: 1/h, then: ban 1h }
";
    for flavour in Flavour::ALL {
        let (redis, options) = start_redis(flavour, "");
        let server = start_with(rules, options);
        let mut http = server.http();
        for turn in 0..5 {
            let body = serde_json::json!({ "attributes": { "user": "ann", "device": "phone" } });
            assert_eq!(http.post("/v1/check", &body).1["allowed"], true, "{flavour:?} {turn}");
        }
        for path in ["/v1/peek", "/v1/refund", "/v1/reset"] {
            let body = serde_json::json!({ "key": "mail", "limit": "3/h fixed first_hit" });
            let answer = server.with_all_rights("POST", path, &body.to_string());
            assert_eq!(answer.0, 200, "{flavour:?} {path}");
        }
        assert_eq!(http.check("eve")["allowed"], true, "{flavour:?}");
        assert_eq!(http.check("eve")["reason"], "banned", "{flavour:?}");
        assert_eq!(server.store_state(), "well");
        assert_eq!(refused(&redis), [""; 0], "{flavour:?}");

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

/// Starts a gateway whose upstream answers deferred requests with the given status.
fn gateway(options: RedisOptions, status: &Arc<AtomicU16>) -> (TestServer, Upstream) {
    let status = status.clone();
    let upstream = Upstream::answering(move |request, stream| {
        let is_deferred = request.header("tollgate-deferred").is_some();
        let status = if is_deferred { status.load(Ordering::SeqCst) } else { 200 };
        let _ = write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        AfterResponse::Keep
    });
    let rules = "
rules:
  - { name: quick, route: POST /quick, limit: 20/s burst 1, then: defer }
  - { name: slow, route: POST /slow, limit: 1/h, then: defer }
";
    let server = start_configured(rules, options, |config| {
        let mut gateway = GatewayOptions::to(vec![upstream.url().parse().unwrap()]);
        gateway.listen = Bind::plain("127.0.0.1:0".parse().unwrap());
        gateway.defer.attempts = 2;
        gateway.defer.backoff = Duration::from_millis(20);
        gateway.defer.take_over = Duration::from_millis(300);
        config.gateway = Some(gateway);
    });
    (server, upstream)
}

/// Sends requests until one is deferred; returns its id.
fn deferred(server: &TestServer, target: &str) -> String {
    let mut client = server.web();
    loop {
        let response = client.send("POST", target, &[], "");
        if let Some(location) = response.header("location") {
            return location.rsplit('/').next().unwrap().to_owned();
        }
        assert_eq!(response.status(), 200, "{}", response.text());
    }
}

#[test]
fn the_documented_rights_of_gateways_suffice_for_deferred_requests() {
    for flavour in Flavour::ALL {
        let (redis, options) = start_redis(flavour, documented_for_gateways());
        let status = Arc::new(AtomicU16::new(200));
        let (server, _upstream) = gateway(options, &status);
        let until_state = |id: &str, wanted: &str| {
            until(wanted, || {
                let (code, request) = server.admin("GET", &format!("/v1/deferred/{id}"));
                assert_eq!(code, 200, "{flavour:?}: {request}, refused {:?}", refused(&redis));
                request["state"] == wanted
            });
        };
        until_state(&deferred(&server, "/quick"), "done");
        // A dead letter is replayed.
        status.store(503, Ordering::SeqCst);
        let dead = deferred(&server, "/quick");
        until_state(&dead, "failed");
        status.store(200, Ordering::SeqCst);
        assert_eq!(server.admin("POST", "/v1/deferred/replay?rule=quick").0, 200);
        until_state(&dead, "done");
        let waiting = deferred(&server, "/slow");
        let (code, listed) = server.admin("GET", "/v1/deferred?state=queued");
        let listed = listed["deferred"].as_array().unwrap();
        assert_eq!((code, listed.len(), &listed[0]["id"]), (200, 1, &waiting.as_str().into()));
        assert_eq!(server.admin("DELETE", &format!("/v1/deferred/{waiting}")).0, 200);
        until_state(&waiting, "cancelled");
        assert!(server.metric("tollgate_deferred{state=\"done\"}") >= 2.0);
        drop(server);
        assert_eq!(refused(&redis), [""; 0], "{flavour:?}");
    }
}

#[test]
fn the_documented_rights_of_gateways_match_the_script() {
    let lua = include_str!("../../src/deferred/shared/deferred.lua");
    let quoted = lua.split(['\'', '"']).skip(1).step_by(2);
    let is_command =
        |word: &&str| word.len() > 2 && word.chars().all(|letter| letter.is_ascii_uppercase());
    let after_call = |word: &&str| {
        [format!("call('{word}'"), format!("{{ '{word}', base")]
            .iter()
            .any(|call| lua.contains(call))
    };
    let used: BTreeSet<String> =
        quoted.filter(is_command).filter(after_call).map(str::to_lowercase).collect();
    let rights = |line: &str| -> BTreeSet<String> {
        line.split(' ').filter_map(|right| right.strip_prefix('+')).map(str::to_owned).collect()
    };
    let plain = rights(documented(Flavour::Redis7));
    let needed: BTreeSet<String> = used.difference(&plain).cloned().collect();
    assert_eq!(rights(documented_for_gateways()), needed);
}
