//! Nodes that share deferred requests through Redis.

use std::collections::HashSet;
use std::time::Duration;

use tollgate_rig::{Redis, Upstream};
use tollgate_server::config::{RedisOptions, StoreChoice};

use super::support::{deferred, report, until_state};
use crate::support::{Gateway, start_with};

fn node(rules: &str, upstream: &Upstream, redis: &Redis) -> Gateway {
    start_with(rules, &[&upstream.url()], |config| {
        let options = redis.url().parse::<RedisOptions>().unwrap();
        let options = options.timeout(Duration::from_secs(10)).unwrap();
        config.store = StoreChoice::Redis(options);
        let defer = &mut config.gateway.as_mut().unwrap().defer;
        defer.backoff = Duration::from_millis(50);
        defer.take_over = Duration::from_secs(1);
    })
}

#[test]
fn when_a_node_dies_another_one_sends_what_it_had() {
    let rules = "rules: [{ name: report, route: POST /report, limit: 10/s burst 1, then: defer }]";
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let (one, other) = (node(rules, &upstream, &redis), node(rules, &upstream, &redis));
    let mut accepted = Vec::new();
    let [mut at_one, mut at_other] = [&one, &other].map(Gateway::connect);
    while accepted.len() < 20 {
        for client in [&mut at_one, &mut at_other] {
            let body = format!("{}.", accepted.len());
            let answer = report(client, "acme", &body);
            if let Some(place) = answer.header("location") {
                accepted.push((body, place.to_owned()));
            }
        }
    }
    // Gone without a word, in the middle of its work.
    drop((at_one, one));
    let places = accepted.iter().map(|(_, place)| place);
    places.for_each(|place| drop(until_state(&other, place, "done")));
    let arrived: HashSet<String> = upstream.seen().iter().map(|seen| seen.text()).collect();
    assert!(accepted.iter().all(|(body, _)| arrived.contains(body)));
    assert_eq!(other.metric("tollgate_deferred{state=\"queued\"}"), 0);
}

#[test]
fn every_node_knows_what_is_deferred() {
    let rules = "rules: [{ name: report, route: POST /report, limit: 1/h, then: defer }]";
    let (upstream, redis) = (Upstream::start(), Redis::start());
    let (one, other) = (node(rules, &upstream, &redis), node(rules, &upstream, &redis));
    assert_eq!(report(&mut one.connect(), "acme", "").status(), 200);
    let place = deferred(&mut one.connect(), "acme", "");
    deferred(&mut other.connect(), "acme", "");
    let (code, _) = other.admin("DELETE", &format!("/v1/deferred/{}", super::support::id(&place)));
    assert_eq!(code, 200);
    until_state(&one, &place, "cancelled");
    let (_, listed) = one.admin("GET", "/v1/deferred?state=queued");
    assert_eq!(listed["deferred"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(upstream.count(), 1);
}
