//! Nodes that share deferred requests through Redis.

use std::collections::HashSet;
use std::time::Duration;

use tollgate_rig::{Cluster, Redis, Upstream};
use tollgate_server::config::{RedisOptions, StoreChoice};

use super::support::{deferred, report, until, until_state};
use crate::support::{Gateway, start_with};

fn node(rules: &str, upstream: &Upstream, redis: &Redis) -> Gateway {
    node_at(rules, upstream, &redis.url())
}

fn node_at(rules: &str, upstream: &Upstream, store: &str) -> Gateway {
    start_with(rules, &[&upstream.url()], |config| {
        let options = store.parse::<RedisOptions>().unwrap();
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
    let arrived: HashSet<String> = upstream.requests().iter().map(|seen| seen.text()).collect();
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

#[test]
fn a_cluster_keeps_them_together_also_while_it_moves_them() {
    let slow = "rules: [{ name: report, route: POST /report, limit: 1/h, then: defer }]";
    let quick = "rules: [{ name: report, route: POST /report, limit: 20/s, then: defer }]";
    let (upstream, cluster) = (Upstream::start(), Cluster::start(3, 0));
    let address = format!("127.0.0.1:{}", cluster.node(0).port());
    let store = format!("redis+cluster://{address}");
    let one = node_at(slow, &upstream, &store);
    let mut client = one.connect();
    assert_eq!(report(&mut client, "acme", "0").status(), 200);
    let mut places: Vec<String> =
        ["1", "2"].iter().map(|body| deferred(&mut client, "acme", body)).collect();

    let slot = cluster.slot_of("tollgate:{deferred:}");
    let (from, to) = (cluster.owner_of(slot), (cluster.owner_of(slot) + 1) % 3);
    for node in [from, to] {
        let keys = cluster.node(node).command(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
        assert_eq!(keys.unwrap().text() != "0", node == from, "node {node}");
    }
    cluster.begin_move(slot, to);
    let meanwhile = std::thread::spawn(move || deferred(&mut client, "acme", "3"));
    // A lookup during the move finds only a part of the keys, and has to be repeated.
    let told_to_wait = || cluster.node(to).info("errorstat_TRYAGAIN").is_some();
    until("a call for what is on the move", told_to_wait);
    cluster.finish_move(slot, to);
    places.push(meanwhile.join().unwrap());
    assert_eq!(cluster.owner_of(slot), to);

    let other = node_at(quick, &upstream, &store);
    // Gone without a word.
    drop(one);
    for place in &places {
        until_state(&other, place, "done");
    }
    let arrived: HashSet<String> = upstream.requests().iter().map(|seen| seen.text()).collect();
    assert!(["0", "1", "2", "3"].iter().all(|body| arrived.contains(*body)), "{arrived:?}");
    // No call was redirected: that would cost every lookup twice.
    let moved = |node: usize| cluster.node(node).info("errorstat_MOVED");
    let before: Vec<_> = (0..3).map(moved).collect();
    let last = deferred_again(&other);
    until_state(&other, &last, "done");
    assert_eq!((0..3).map(moved).collect::<Vec<_>>(), before);
}

/// One more that is over the limit.
fn deferred_again(gateway: &Gateway) -> String {
    let mut client = gateway.connect();
    loop {
        if let Some(place) = report(&mut client, "acme", "last").header("location") {
            return place.to_owned();
        }
    }
}
