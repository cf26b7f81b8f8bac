//! nginx's own traces of `limit_req` and `limit_conn`, through a gateway whose clock stands still
//! unless told to move.
//!
//! The rules are what `tollgate import nginx` writes for the directive of each trace (its own tests
//! ask the engine the same questions). Two things differ, and neither shows in a trace. nginx
//! counts in thousandths of a request and in milliseconds, and rounds down what has leaked at every
//! request, so that its excess can be up to a thousandth above the true one: here nothing is
//! rounded, and a delay is what nginx says up to less than a millisecond more. And nginx refuses
//! with 503; a rule with `delay` refuses with 429.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tollgate::testing::ManualClock;
use tollgate::{Clock, Span};
use tollgate_rig::{AfterResponse, Upstream, WebClient, until};

use crate::support::{Gateway, start_with};

/// The traces, each with the rules that its directive is imported as.
const TRACES: [(&str, &str); 8] = [
    (
        "limit_req/10rps_burst5_delay",
        "{ name: z10, per: ip, limit: 10/s leaky burst 6, then: delay up to 500ms }",
    ),
    (
        "limit_req/10rps_burst5_nodelay",
        "{ name: z10, per: ip, limit: 10/s burst 6, then: deny 503 }",
    ),
    (
        "limit_req/7rpm_truncated",
        "{ name: z7m, per: ip, limit: 116/1000s burst 1, then: deny 503 }",
    ),
    (
        "limit_req/100rps_burst3_delay1",
        "{ name: z100, per: ip, limit: 100/s leaky burst 4 free 2, then: delay up to 20ms }",
    ),
    (
        "limit_req/two_zones",
        "{ name: z10, per: ip, limit: 10/s burst 11, then: deny 503 }, \
         { name: g2, per: ip, limit: 2/s leaky burst 4, then: delay up to 1500ms }",
    ),
    ("limit_req/clock_back_small", "{ name: z10, per: ip, limit: 10/s burst 1, then: deny 503 }"),
    (
        "limit_req/empty_key_not_limited",
        "{ name: z10, per: 'header[\"x-key\"]', missing_key: skip, limit: 10/s burst 1, then: deny 503 }",
    ),
    (
        "limit_conn/two_per_key",
        "{ name: c, per: ip, limit: 2 concurrent lease 1h, then: deny 503 }",
    ),
];

fn traces() -> HashMap<String, Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors/nginx.json");
    let all: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let named = |trace: Value| {
        let id = trace["id"].as_str().unwrap().trim_start_matches("nginx/").to_owned();
        (id, trace["steps"].as_array().unwrap().clone())
    };
    all.into_iter().map(named).collect()
}

/// A gateway under a clock of ours, in front of a stub that holds on to `/hold`.
fn stage(rules: &str) -> (Gateway, Upstream, ManualClock) {
    let upstream = Upstream::answering(|request, stream| {
        if request.target() == "/hold" {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
            let _ = stream.read(&mut [0]);
            return AfterResponse::Close;
        }
        match stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    });
    let clock = ManualClock::new();
    let rules = format!("rules: [{rules}]");
    let gateway =
        start_with(&rules, &[&upstream.url()], |config| config.clock = Some(Clock::from(&clock)));
    (gateway, upstream, clock)
}

#[test]
fn every_trace_of_nginx_is_answered_alike() {
    let traces = traces();
    assert_eq!(traces.len(), TRACES.len());
    for (id, rules) in TRACES {
        let steps = traces.get(id).unwrap_or_else(|| panic!("{id} is missing"));
        match id.starts_with("limit_conn/") {
            true => connections(id, rules, steps),
            false => requests(id, rules, steps),
        }
    }
}

fn requests(id: &str, rules: &str, steps: &[Value]) {
    let (gateway, upstream, clock) = stage(rules);
    let start = clock.now();
    let mut asked = Vec::new();
    // When each is let go that is not refused, in ms.
    let mut leaves = Vec::new();
    for (n, step) in steps.iter().enumerate() {
        let (at, expect) = (step["at"].as_u64().unwrap(), &step["expect"]);
        clock.set(start + Span::from_millis(at));
        asked.push(ask(gateway.connect()));
        // The next request is sent once this one is decided; delayed requests wait meanwhile.
        until("it is decided", || gateway.decided() == n + 1);
        if expect["status"] != "REJECTED" {
            leaves.push(at + expect["delay_ms"].as_u64().unwrap_or(0));
        }
    }
    leaves.sort_unstable();
    let now = clock.now().since(start).as_nanos() / 1_000_000;
    for (n, at) in leaves.iter().enumerate().filter(|(_, at)| **at > now) {
        clock.set(start + Span::from_millis(at - 1));
        assert!(upstream.count() <= n, "{id}: nobody leaves before {at} ms");
        clock.set(start + Span::from_millis(*at));
        until("it is let go", || upstream.count() > n);
    }
    for (n, (step, asked)) in steps.iter().zip(asked).enumerate() {
        let expect = &step["expect"];
        let expected = match expect["status"].as_str().unwrap() {
            "REJECTED" if rules.contains("delay") => 429,
            "REJECTED" => 503,
            _ => 200,
        };
        assert_eq!(asked.join().unwrap(), expected, "{id} step {n}: {expect}");
    }
    assert_eq!(upstream.count(), leaves.len(), "{id}");
}

/// Asks on another thread, and tells the status.
fn ask(mut client: WebClient) -> JoinHandle<u16> {
    std::thread::spawn(move || client.get("/").status())
}

fn connections(id: &str, rules: &str, steps: &[Value]) {
    let (gateway, _upstream, clock) = stage(rules);
    let mut open = HashMap::new();
    for (n, step) in steps.iter().enumerate() {
        clock.advance(Duration::from_millis(1));
        let number = step["args"]["conn"].as_u64().unwrap();
        if step["op"] == "open" {
            let mut client = gateway.connect();
            client.write("GET /hold HTTP/1.1\r\nHost: stub\r\n\r\n");
            let status = client.read_head().unwrap().status();
            assert_eq!(step["expect"]["http"], status, "{id} step {n}");
            open.insert(number, client);
        } else {
            let before = gateway.connections();
            drop(open.remove(&number));
            until("it is closed", || gateway.connections() < before);
        }
    }
}
