//! All doors decide through Redis, and servers share counters.

use serde_json::{Value, json};
use tollgate_rig::{Redis, Reply};

use crate::support::{LONG_TIMEOUT, TestServer, start};

const API: &str =
    "attributes: [user]\nrules: [{ name: api, per: user, limit: 10/h fixed first_hit }]";

fn two(rules: &str, redis: &Redis) -> [TestServer; 2] {
    [(), ()].map(|()| start(rules, &redis.url(), LONG_TIMEOUT))
}

#[test]
fn two_servers_share_counters() {
    let redis = Redis::start();
    let [one, two] = two(API, &redis);
    assert_eq!((one.pass("ann", 6), two.pass("ann", 6), one.pass("ann", 1)), (6, 4, 0));
    assert_eq!(two.pass("bob", 1), 1);

    let limit = json!({ "key": "mail", "limit": "3/h fixed first_hit" });
    let mut doors = [one.http(), two.http()];
    let allowed: Vec<bool> =
        (0..5).map(|turn| doors[turn % 2].post("/v1/limit", &limit).1["allowed"] == true).collect();
    assert_eq!(allowed, [true, true, true, false, false]);
    let (_, peeked) = doors[0].post("/v1/peek", &limit);
    assert_eq!(peeked["limits"][0]["remaining"], 0, "{peeked}");
    let more = json!({ "key": "mail", "limit": "3/h fixed first_hit", "amount": 2 });
    one.with_all_rights("POST", "/v1/refund", &more.to_string());
    // The other server has cached the refusal and sees the refund a little later.
    let mut response = json!({});
    tollgate_rig::until("the refund is visible", || {
        response = doors[1].post("/v1/limit", &limit).1;
        response["allowed"] == true
    });
    assert_eq!(response["limits"][0]["remaining"], 1);
}

#[test]
fn a_batch_is_answered_in_order() {
    let redis = Redis::start();
    let server = start(API, &redis.url(), LONG_TIMEOUT);
    let request = |number: usize| match number % 3 {
        0 => json!({ "key": format!("key {number}"), "limit": "5/h", "cost": number % 7 + 1 }),
        1 => json!({ "attributes": { "user": format!("user {number}") } }),
        _ => json!({ "domain": "none", "attributes": {} }),
    };
    let requests: Vec<Value> = (0..200).map(request).collect();
    let (_, body) = server.http().post("/v1/batch", &json!({ "requests": requests }));
    let results = body["results"].as_array().unwrap();
    assert_eq!(results.len(), 200);
    for (number, result) in results.iter().enumerate() {
        match number % 3 {
            0 => {
                let (cost, left) = (number as u64 % 7 + 1, &result["limits"][0]["remaining"]);
                assert_eq!(*left, json!(if cost > 5 { 5 } else { 5 - cost }), "{result}");
            }
            1 => assert_eq!(result["limits"][0]["remaining"], 9, "{result}"),
            _ => assert_eq!(result["problem"]["status"], 400, "{result}"),
        }
    }
}

#[test]
fn a_pipeline_is_sent_at_once_and_answered_in_order() {
    let redis = Redis::start();
    let server = start(API, &redis.url(), LONG_TIMEOUT);
    let mut client = server.resp();
    let arguments = |number: usize| {
        let key = format!("key {number}");
        ["CL.THROTTLE".to_owned(), key, "99".into(), "100".into(), "3600".into()]
    };
    let count = 200;
    for number in 0..count {
        let quantity = (number % 50 + 1).to_string();
        let mut arguments = arguments(number).to_vec();
        arguments.push(quantity);
        client.send(&arguments).unwrap();
    }
    for number in 0..count {
        let reply = client.reply().unwrap();
        let reply: Vec<i64> = reply.list().iter().filter_map(Reply::int).take(3).collect();
        assert_eq!(reply, [0, 100, 100 - (number as i64 % 50 + 1)], "{number}");
    }
    // A single command uses the same counter as a pipeline, on every connection.
    let alone = client.command(&[&arguments(0)[..], &["1".to_owned()]].concat()).unwrap();
    assert_eq!(alone.list()[2].int(), Some(98));
    client.send(&arguments(0)).unwrap();
    client.send(&["PING"]).unwrap();
    assert_eq!(client.reply().unwrap().list()[2].int(), Some(97));
    assert_eq!(client.reply().unwrap().text(), "PONG");
    let mut other = server.resp();
    assert_eq!(other.command(&arguments(0)).unwrap().list()[2].int(), Some(96));
    let info = client.command(&["INFO"]).unwrap().text();
    assert!(info.contains("# Keyspace") && !info.contains("db0"), "{info}");
}

/// The third of three limits refuses, so the first two are not charged.
#[test]
fn all_limits_of_a_request_are_charged_or_none() {
    let redis = Redis::start();
    let rules = "
attributes: [org, team, user]
rules:
  - { name: org, per: org, limit: 100/h fixed first_hit }
  - { name: team, per: [org, team], limit: 50/h fixed first_hit }
  - { name: user, per: [org, team, user], limit: 2/h fixed first_hit }
";
    let [one, two] = two(rules, &redis);
    let body = json!({ "attributes": { "org": "acme", "team": "red", "user": "ann" } });
    let send = |server: &TestServer, path: &str| server.http().post(path, &body).1;
    let left = |response: &Value| -> Vec<u64> {
        let limits = response["limits"].as_array().unwrap();
        limits.iter().map(|limit| limit["remaining"].as_u64().unwrap()).collect()
    };
    assert_eq!(send(&one, "/v1/check")["allowed"], true);
    assert_eq!(send(&two, "/v1/check")["allowed"], true);
    for server in [&one, &two, &one] {
        let denied = send(server, "/v1/check");
        assert_eq!((&denied["allowed"], &denied["rule"]), (&json!(false), &json!("user")));
    }
    assert_eq!(left(&send(&two, "/v1/peek")), [98, 48, 0]);
}

#[test]
fn metrics_report_the_state_of_the_store() {
    let redis = Redis::start();
    let server = start(API, &redis.url(), LONG_TIMEOUT);
    let before = server.metric("tollgate_store_seconds_count");
    assert_eq!(server.pass("ann", 20), 10);
    let (_, limited) = server.http().post("/v1/limit", &json!({ "key": "k", "limit": "1/h" }));
    assert_eq!(limited["allowed"], true);
    // Cached refusals of an exhausted key do not call the store.
    assert!(server.metric("tollgate_store_seconds_count") - before >= 11.0);
    assert!(server.metric("tollgate_store_seconds_sum") > 0.0);
    assert_eq!(server.metric("tollgate_overshoot_bound"), 0.0);
    assert_eq!(server.metric("tollgate_store_resting"), 0.0);
    for kind in ["timeout", "unreachable", "refused", "resting", "other"] {
        let name = format!("tollgate_store_errors_total{{kind=\"{kind}\"}}");
        assert_eq!(server.metric(&name), 0.0, "{kind}");
    }
    let (_, text) = server.http().send("GET", "/metrics", "");
    assert!(!text.contains("\ntollgate_keys "), "the number of keys in Redis is unknown");
    assert!(!text.contains("\ntollgate_memory_bytes "), "the memory of Redis is its own");
    let (status, ready) = server.ready();
    assert_eq!((status, &ready["store"]["state"]), (200, &json!("well")), "{ready}");
    assert_eq!(ready["store"]["kind"], "redis");
}

#[test]
fn throttle_has_one_counter_per_key_that_servers_share() {
    let redis = Redis::start();
    let mut clients = two(API, &redis).map(|server| (server.resp(), server));
    let mut call = |server: usize, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let reply = clients[server].0.command(&words).unwrap();
        reply.list().iter().map(|number| number.int().unwrap()).collect::<Vec<i64>>()
    };
    // The arrival time is ten hours ahead. A limit with a smaller burst refuses, whatever its rate,
    // and the same state passes under the first limit again.
    for (number, left) in (0..10).zip((6..16).rev()) {
        assert_eq!(call(number % 2, "CL.THROTTLE a 15 1 3600")[..3], [0, 16, left]);
    }
    let refused = call(1, "CL.THROTTLE a 4 7 3600");
    assert_eq!(refused[..3], [1, 5, 0]);
    assert!((33_900..=33_960).contains(&refused[3]), "{refused:?}");
    assert_eq!(call(0, "CL.THROTTLE a 15 1 3600 2")[..3], [0, 16, 4]);
    let [(one, _), (two, _)] = &mut clients;
    let int = |client: &mut tollgate_rig::Client, words: &[&str]| {
        client.command(words).unwrap().int().unwrap()
    };
    let ttl = int(two, &["TTL", "a"]);
    assert!((43_190..=43_200).contains(&ttl), "{ttl}");
    assert_eq!((int(one, &["DEL", "a", "none"]), int(two, &["EXISTS", "a"])), (1, 0));
    // Scripts keep their keys in memory, which servers would not share.
    let script = "a1de965f42e177aa339706bd580f049065eca79a";
    for words in [&["EVALSHA", script, "1", "k", "1", "60"][..], &["GET", "k"], &["INCR", "k"]] {
        let error = match one.command(words) {
            Ok(Reply::Error(error)) => error,
            Ok(reply) => panic!("{words:?}: {reply:?}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("need the memory store"), "{error}");
    }
}
