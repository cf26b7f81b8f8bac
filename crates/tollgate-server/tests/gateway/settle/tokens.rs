//! Many calls at once against a hundred tokens: what they use together stays within the bound.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tollgate_rig::{Redis, WebClient, until};
use tollgate_server::config::{RedisOptions, StoreChoice};

use super::{Model, RULES, all_settled, chat, left, settled};
use crate::support::{Gateway, start, start_with};

const CALLS: u64 = 64;

/// What a call may use, and what it does use: from 10 to 40, and by a factor more or less.
fn call(number: u64, overrun: bool) -> (u64, u64) {
    let max = 10 + number * 7 % 31;
    let used = match (overrun, number % 3) {
        (_, 0) => max,
        (_, 1) => max / 3,
        (false, _) => max - 1,
        (true, _) => max + 1 + number % 9,
    };
    (max, used)
}

/// Sends all calls at once, to whichever address comes next; the gate opens once each of them is
/// either refused or at the model. What those that were let through reserved and used.
fn wave(addresses: &[SocketAddr], model: &Model, streamed: bool, overrun: bool) -> Vec<(u64, u64)> {
    model.gate.set(false);
    let (before, refused) = (model.upstream.count(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let ask = |number: u64| {
            let (max, used) = call(number, overrun);
            let address = addresses[number as usize % addresses.len()];
            let answer = chat(address, max, used, streamed && number.is_multiple_of(2));
            refused.fetch_add(usize::from(answer.status() == 429), Ordering::SeqCst);
            (answer.status() == 200).then_some((max, used))
        };
        let calls: Vec<_> = (0..CALLS).map(|number| scope.spawn(move || ask(number))).collect();
        until("every call is refused or under way", || {
            let under_way = model.upstream.count() - before;
            refused.load(Ordering::SeqCst) + under_way == CALLS as usize
        });
        model.gate.set(true);
        calls.into_iter().filter_map(|call| call.join().unwrap()).collect()
    })
}

/// Sends waves until no request is admitted. No wave reserves more than was left, so the usage can
/// exceed the limit only by what one wave used beyond its reservations.
fn exhaust(gateways: &[&Gateway], model: &Model, streamed: bool, overrun: bool) {
    let addresses: Vec<SocketAddr> = gateways.iter().map(|gateway| gateway.address()).collect();
    let (mut used_before, mut calls, mut beyond) = (0, 0, 0);
    for round in 0.. {
        let passed = wave(&addresses, model, streamed, overrun);
        calls += passed.len();
        until("all are settled", || {
            gateways.iter().map(|gateway| all_settled(gateway, "tokens")).sum::<usize>() == calls
        });
        if passed.is_empty() {
            assert!(round > 0, "nobody was let through");
            break;
        }
        let reserved: u64 = passed.iter().map(|(max, _)| max).sum();
        assert!(used_before + reserved <= 100, "{used_before} used, {reserved} reserved");
        assert!(beyond == 0, "somebody is owed, and nobody is let through");
        let wave_beyond: u64 = passed.iter().map(|(max, used)| used.saturating_sub(*max)).sum();
        used_before += passed.iter().map(|(_, used)| used).sum::<u64>();
        assert!(used_before <= 100 + wave_beyond, "{used_before}, {wave_beyond} beyond");
        beyond = used_before.saturating_sub(100);
    }
    assert_eq!(model.used(), used_before, "all that was used was used by those let through");
    assert!(used_before > 90 - 40, "what was not used can be used by others: {used_before}");
    assert_eq!(left(gateways[0]), 100_u64.saturating_sub(used_before));
}

#[test]
fn with_true_reserves_the_limit_is_never_exceeded() {
    for streamed in [false, true] {
        let model = Model::start();
        let gateway = start(RULES, &model.upstream);
        exhaust(&[&gateway], &model, streamed, false);
        assert!(model.used() <= 100);
        assert!(settled(&gateway, "tokens", "refunded") > 0);
        assert_eq!(settled(&gateway, "tokens", "overrun"), 0);
    }
}

#[test]
fn what_runs_over_is_owed_and_bounded_by_those_in_flight() {
    for streamed in [false, true] {
        let model = Model::start();
        let gateway = start(RULES, &model.upstream);
        exhaust(&[&gateway], &model, streamed, true);
        assert_eq!(settled(&gateway, "tokens", "kept"), 0);
    }
}

#[test]
fn two_gateways_share_the_limit() {
    let redis = Redis::start();
    let model = Model::start();
    let options: RedisOptions = redis.url().parse().unwrap();
    let start = || {
        start_with(RULES, &[&model.upstream.url()], |config| {
            let patient = std::time::Duration::from_secs(10);
            config.store = StoreChoice::Redis(options.clone().timeout(patient).unwrap());
        })
    };
    let (one, other) = (start(), start());
    exhaust(&[&one, &other], &model, true, false);
    assert!(model.used() <= 100);
}

fn http(address: SocketAddr, path: &str, body: &Value) -> Value {
    let headers = [("content-type", "application/json")];
    let answer = WebClient::connect(address).send("POST", path, &headers, &body.to_string());
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn the_same_by_reservations() {
    let model = Model::start();
    let gateway = start(RULES, &model.upstream);
    let address = gateway.http();
    let mut used_before = 0;
    loop {
        let held: Vec<(String, u64, u64)> = std::thread::scope(|scope| {
            let reserve = |number: u64| {
                let (max, used) = call(number, false);
                let attributes = json!({ "route": "POST /v1/chat", "body.max_tokens": max });
                let hold = http(address, "/v1/reserve", &json!({ "attributes": attributes }));
                hold["id"].as_str().map(|id| (id.to_owned(), max, used))
            };
            let calls: Vec<_> = (0..CALLS).map(|it| scope.spawn(move || reserve(it))).collect();
            calls.into_iter().filter_map(|call| call.join().unwrap()).collect()
        });
        let reserved: u64 = held.iter().map(|(_, max, _)| max).sum();
        assert!(used_before + reserved <= 100);
        for (number, (id, _, used)) in held.iter().enumerate() {
            let path = format!("/v1/reservations/{id}/settle");
            let body = match number % 2 {
                0 => json!({ "amount": used }),
                _ => json!({ "outcome": { "response": { "status": 200,
                    "body": { "usage": { "total_tokens": used } } } } }),
            };
            let answer = http(address, &path, &body);
            used_before += used;
            assert!(answer["limits"][0]["remaining"].is_u64(), "{answer}");
        }
        if held.is_empty() {
            break;
        }
    }
    assert_eq!(left(&gateway), 100 - used_before);
    assert!(used_before > 50, "{used_before}");
}
