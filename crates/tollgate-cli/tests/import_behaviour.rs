//! Imported rules decide as the original does: nginx by traces of a real server, the others by their
//! documentation.

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tollgate::testing::ManualClock;
use tollgate::{Span, Time};
use tollgate_rules::envoy::{self, Code, Descriptor, RateLimitRequest};
use tollgate_rules::{Decision, Request, RuleLimiter, Rules, Source};

/// Imports a configuration given as text.
fn import(from: &str, config: &str) -> Rules {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command.args(["import", from, "-", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("stdin is piped").write_all(config.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("the binary ends");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rules = answer["rules"].as_str().expect("rules");
    Rules::read([Source::new("imported", rules)]).unwrap_or_else(|found| panic!("{found}\n{rules}"))
}

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    std::fs::read_to_string(folder.join(name)).expect("the file is there")
}

/// Returns a limiter with a manual clock.
fn limiter(rules: Rules) -> (RuleLimiter, ManualClock) {
    let clock = ManualClock::new();
    (RuleLimiter::builder().clock(&clock).build(rules), clock)
}

fn client() -> IpAddr {
    IpAddr::from([203, 0, 113, 7])
}

/// Returns the names of the rules whose limits were checked.
fn checked_rules(decision: &Decision) -> Vec<String> {
    let mut names: Vec<String> = decision.limits().map(|limit| limit.rule.to_owned()).collect();
    names.dedup();
    names
}

#[test]
fn every_trace_of_nginx_has_the_same_verdicts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors/nginx.json");
    let text = std::fs::read_to_string(path).expect("the traces are there");
    let traces: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(traces.len(), 8);
    for trace in &traces {
        match trace["id"].as_str().is_some_and(|id| id.contains("/limit_conn/")) {
            true => connections(trace),
            false => requests(trace),
        }
    }
}

/// Returns the configuration of a trace, whose rates are in thousandths per second.
fn config(trace: &Value, key: &str) -> String {
    let mut config = String::new();
    for limit in trace["config"]["limits"].as_array().expect("limits") {
        let (zone, milli) = (limit["zone"].as_str().unwrap(), limit["rate_milli_per_s"].as_u64());
        let rate = match milli.expect("a rate") {
            milli if milli % 1000 == 0 => format!("{}r/s", milli / 1000),
            milli => format!("{}r/m", (milli * 60).div_ceil(1000)),
        };
        config += &format!("limit_req_zone {key} zone={zone}:10m rate={rate};\n");
    }
    config + &format!("server {{ {} }}\n", trace["config"]["directive"].as_str().unwrap())
}

fn requests(trace: &Value) {
    let id = trace["id"].as_str().unwrap();
    // The key of this trace was empty, which its steps do not show.
    let key = if id.ends_with("empty_key_not_limited") { "$http_x_key" } else { "$remote_addr" };
    let (limiter, clock) = limiter(import("nginx", &config(trace, key)));
    let start = clock.now();
    for (n, step) in trace["steps"].as_array().unwrap().iter().enumerate() {
        clock.set(start + Span::from_millis(step["at"].as_u64().unwrap()));
        let decision = limiter.decide_now(&Request::new("GET", "/").peer(client()));
        let status = match (decision.allowed, decision.wait) {
            (true, _) if decision.limits().next().is_none() => "NONE",
            (true, Duration::ZERO) => "PASSED",
            (true, _) => "DELAYED",
            (false, _) => "REJECTED",
        };
        let expect = &step["expect"];
        assert_eq!(expect["status"], status, "{id} step {n}");
        let wait = u64::try_from(decision.wait.as_millis()).unwrap();
        assert_eq!(expect["delay_ms"].as_u64().unwrap_or(0), wait, "{id} step {n}");
    }
}

fn connections(trace: &Value) {
    let directive = trace["config"]["directive"].as_str().unwrap();
    let zone = "limit_conn_zone $binary_remote_addr zone=c:10m;";
    let (limiter, clock) = limiter(import("nginx", &format!("{zone} server {{ {directive} }}")));
    let mut open: HashMap<u64, Decision> = HashMap::new();
    for (n, step) in trace["steps"].as_array().unwrap().iter().enumerate() {
        clock.advance(Duration::from_secs(60));
        let connection = step["args"]["conn"].as_u64().unwrap();
        match step["op"].as_str() {
            Some("open") => {
                let decision = limiter.decide_now(&Request::new("GET", "/").peer(client()));
                let code = if decision.allowed { 200 } else { u64::from(decision.code) };
                assert_eq!(step["expect"]["http"], code, "step {n}");
                open.insert(connection, decision);
            }
            _ => drop(open.remove(&connection)),
        }
    }
}

#[test]
fn the_location_that_nginx_would_choose_decides() {
    let (limiter, _clock) = limiter(import("nginx", &file("nginx/basic.conf")));
    for (path, expected) in [
        ("/", vec!["perip", "addr"]),
        ("/searching", vec!["perip", "addr"]),
        ("/search/shoes", vec!["perip-2", "page", "addr"]),
        ("/login", vec!["perkey", "addr"]),
        ("/login/help", vec!["perip", "addr"]),
        ("/health", vec![]),
    ] {
        let request = Request::new("GET", path).peer(client()).header("X-Api-Key", "k");
        assert_eq!(checked_rules(&limiter.decide_now(&request)), expected, "{path}");
    }
    // Without the header there is no key to count by.
    let nameless = Request::new("GET", "/login").peer(client());
    assert_eq!(checked_rules(&limiter.decide_now(&nameless)), ["addr"]);
}

#[test]
fn the_server_that_nginx_would_choose_decides() {
    let config = file("nginx/conf.d/zones.conf") + &file("nginx/servers.conf");
    let (limiter, _clock) = limiter(import("nginx", &config));
    for (host, path, expected) in [
        ("example.com", "/", vec!["all"]),
        ("whatever.test", "/", vec!["all"]),
        ("example.com", "/static/x", vec!["all", "conns"]),
        ("api.example.com", "/static/x", vec!["api"]),
        ("api.example.com", "/", vec!["api"]),
        ("eu.api.example.com", "/v1", vec!["api"]),
        ("api.example.com", "/v1/upload/x", vec!["api-2"]),
        ("api.example.com", "/v1/upload/x.PNG", vec!["all-2"]),
        ("api.example.com", "/v1/admin/x.png", vec![]),
    ] {
        let request = Request::new("GET", path).host(host).peer(client());
        assert_eq!(checked_rules(&limiter.decide_now(&request)), expected, "{host}{path}");
    }
}

#[test]
fn a_location_applies_to_its_own_server_only() {
    let config = "
        limit_req_zone $remote_addr zone=a:1m rate=1r/s;
        limit_req_zone $remote_addr zone=b:1m rate=1r/s;
        limit_req zone=a burst=9;
        server { server_name one; location /x { limit_req zone=b burst=9; } }
        server { server_name two; location /y { limit_req zone=b burst=9; } }";
    let (limiter, _clock) = limiter(import("nginx", config));
    for (host, path, expected) in [
        ("one", "/x", "b"),
        ("two", "/x", "a-2"),
        ("one", "/y", "a"),
        ("two", "/y", "b-2"),
        ("three", "/x", "b"),
    ] {
        let request = Request::new("GET", path).host(host).peer(client());
        assert_eq!(checked_rules(&limiter.decide_now(&request)), [expected], "{host}{path}");
    }
}

#[test]
fn a_zone_has_one_counter_wherever_it_is_used() {
    let (limiter, _clock) = limiter(import("nginx", &file("nginx/many.conf")));
    let allowed =
        |path: &str| limiter.decide_now(&Request::new("GET", path).peer(client())).allowed;
    assert!(allowed("/a"));
    assert!(!allowed("/b"));
    assert!(!allowed("/e/x"));
    assert!(allowed("/other"));
}

#[test]
fn envoy_takes_the_exact_value_then_a_pattern_then_the_key() {
    let (limiter, _clock) = limiter(import("envoy", &file("envoy/tree.yaml")));
    for (attributes, expected) in [
        (vec![("user", "ann")], vec!["user"]),
        (vec![("user", "svc-mail")], vec!["user-svc"]),
        (vec![("user", "svc-batch")], vec!["user-svc-batch"]),
        (vec![("to_number", "1")], vec!["numbers"]),
        (vec![("message_type", "marketing")], vec![]),
        (vec![("tenant", "eu-1")], vec!["tenant-eu"]),
        (vec![("tenant", "us-1")], vec![]),
        (vec![("other", "x")], vec![]),
    ] {
        let decision = limiter.decide_now(&with(&attributes));
        assert_eq!(
            (decision.allowed, checked_rules(&decision)),
            (true, to_owned(&expected)),
            "{attributes:?}"
        );
    }
    assert!(!limiter.decide_now(&with(&[("blocked", "x")])).allowed);
}

fn with<'a>(attributes: &[(&'a str, &'a str)]) -> Request<'a> {
    let all = attributes.iter();
    all.fold(Request::empty(), |request, (name, value)| request.attribute(name, *value))
}

fn to_owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[test]
fn envoy_counts_by_value_in_windows_of_the_clock() {
    let (limiter, clock) = limiter(import("envoy", &file("envoy/tree.yaml")));
    clock.set(Time::from_nanos(0) + Span::from_secs(86_400 * 20_000));
    let text = |number: &'static str| {
        limiter.decide_now(&with(&[("message_type", "marketing"), ("to_number", number)])).allowed
    };
    assert_eq!((0..7).filter(|_| text("1")).count(), 5);
    assert!(text("2"));
    clock.advance(Duration::from_secs(86_399));
    assert!(!text("1"));
    clock.advance(Duration::from_secs(1));
    assert!(text("1"));
    // All tenants of a shared threshold have one counter.
    let tenant = |name: &'static str| limiter.decide_now(&with(&[("tenant", name)])).allowed;
    let names = ["eu-1", "eu-2", "eu-3"];
    assert_eq!(names.iter().cycle().take(9).filter(|name| tenant(name)).count(), 7);
}

/// Limits at one depth only, so that the attributes of a request are one descriptor.
const PRECEDENCE: &str = "
domain: shop
descriptors:
  - key: tenant
    value: eu-*
    descriptors:
      - { key: op, value: read, rate_limit: { unit: second, requests_per_unit: 3 } }
      - { key: op, value: write-*, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - key: tenant
    value: '*-test'
    descriptors:
      - { key: op, rate_limit: { unit: second, requests_per_unit: 5 } }
  - key: tenant
    value: eu-1
    descriptors:
      - { key: op, rate_limit: { unit: second, requests_per_unit: 1 } }
      - { key: op, value: free, rate_limit: { unlimited: true } }
  - key: tenant
    descriptors:
      - { key: op, value: '*', share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 9 } }
";

#[test]
fn imported_rules_decide_as_envoy_does() {
    let (imported, clock) = limiter(import("envoy", PRECEDENCE));
    let original = Rules::read([Source::new("shop.yaml", PRECEDENCE)]).expect("read as it is");
    let original = RuleLimiter::builder().clock(&clock).build(original);
    let tenants = ["eu-1", "eu-2", "eu-test", "us-test", "us", "uk"];
    let ops = ["read", "write-a", "write-b", "free", "other"];
    // A linear congruential generator: any order is fine if it is always the same.
    let mut seed = 1_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let (mut allowed, mut denied) = (0, 0);
    for step in 0..4000 {
        clock.advance(Duration::from_millis(next(200) as u64));
        let entries = [("tenant", tenants[next(6)]), ("op", ops[next(5)])];
        let descriptors = [Descriptor::new(&entries)];
        let request = RateLimitRequest::new("shop", &descriptors);
        let theirs = envoy::decide(&original, &request).now_or_never().unwrap().unwrap().overall;
        let ours = imported.decide_now(&with(&entries)).allowed;
        assert_eq!(ours, theirs == Code::Ok, "step {step}: {entries:?}");
        *(if ours { &mut allowed } else { &mut denied }) += 1;
    }
    assert!(allowed > 500 && denied > 500, "{allowed} allowed, {denied} denied");
}

#[test]
fn limitador_counts_from_the_first_hit() {
    let (limiter, clock) = limiter(import("limitador", &file("limitador/limits.yaml")));
    let free = || limiter.decide_now(&with(&[("plan", "free")])).allowed;
    assert_eq!((0..7).filter(|_| free()).count(), 5);
    clock.advance(Duration::from_millis(89_999));
    assert!(!free());
    clock.advance(Duration::from_millis(1));
    assert!(free());
    let read = [("req.method", "GET"), ("req.path", "/x"), ("user_id", "7")];
    let checked = |entries: &[(&str, &str)]| {
        let descriptors = [Descriptor::new(entries)];
        let request = RateLimitRequest::new("shop", &descriptors);
        let response = envoy::decide(&limiter, &request).now_or_never().unwrap().unwrap();
        let name = |limit: &envoy::CurrentLimit| limit.name.as_deref().map(str::to_owned);
        (response.overall, response.statuses[0].current_limit.as_ref().and_then(name))
    };
    assert_eq!(checked(&read), (Code::Ok, Some("reads-per-user".to_owned())));
    assert_eq!(checked(&read[..2]), (Code::Ok, None));
    assert_eq!(checked(&[("banned", "yes")]), (Code::Ok, None), "its variable is missing");
    assert_eq!(checked(&[("banned", "yes"), ("user_id", "7")]).0, Code::OverLimit);
}

#[test]
fn imported_rules_decide_as_limitador_does() {
    let sets: Vec<Value> = serde_json::from_str(&file("limitador/traces.json")).expect("JSON");
    for set in &sets {
        let (limiter, _clock) = limiter(import("limitador", &set["limits"].to_string()));
        let requests = set["requests"].as_array().expect("requests");
        let mut refused = 0;
        for (number, request) in requests.iter().enumerate() {
            let owned: Vec<Vec<(String, String)>> =
                serde_json::from_value(request["descriptors"].clone()).expect("entries");
            let entries: Vec<Vec<(&str, &str)>> = owned
                .iter()
                .map(|all| all.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect())
                .collect();
            let descriptors: Vec<Descriptor<'_>> =
                entries.iter().map(|entries| Descriptor::new(entries)).collect();
            let hits_addend = u32::try_from(request["hits"].as_u64().unwrap()).unwrap();
            let asked =
                RateLimitRequest { hits_addend, ..RateLimitRequest::new("shop", &descriptors) };
            let answer = envoy::decide(&limiter, &asked).now_or_never().unwrap().unwrap();
            let limited = answer.overall == Code::OverLimit;
            assert_eq!(request["limited"], limited, "{} request {number}: {request}", set["name"]);
            refused += usize::from(limited);
        }
        assert!(refused > 0 && refused < requests.len(), "{}: {refused} refused", set["name"]);
    }
}

#[test]
fn kong_runs_the_most_specific_plugin() {
    let (limiter, _clock) = limiter(import("kong", &file("kong/shop.yaml")));
    for (method, path, consumer, expected) in [
        ("GET", "/cart", None, vec!["shop"]),
        ("GET", "/cart/checkout", None, vec!["shop"]),
        ("POST", "/cart/checkout", None, vec!["checkout"]),
        ("POST", "/cart/checkout", Some("bob"), vec!["checkout"]),
        ("POST", "/cart/checkout", Some("ann"), vec!["ann"]),
        ("GET", "/elsewhere", None, vec!["global"]),
        ("GET", "/elsewhere", Some("ann"), vec!["ann"]),
        ("GET", "/hooks/12", None, vec!["shop-2", "webhooks"]),
    ] {
        let request = Request::new(method, path).peer(client());
        let request = match consumer {
            Some(consumer) => request.attribute("consumer", consumer),
            None => request,
        };
        assert_eq!(
            checked_rules(&limiter.decide_now(&request)),
            expected,
            "{method} {path} {consumer:?}"
        );
    }
}

#[test]
fn kong_counts_requests_without_a_consumer_by_address() {
    let (limiter, _clock) = limiter(import("kong", &file("kong/shop.yaml")));
    let allowed = |request: Request<'_>| limiter.decide_now(&request).allowed;
    let checkout = || Request::new("POST", "/cart/checkout").peer(client());
    assert_eq!((0..8).filter(|_| allowed(checkout())).count(), 6);
    assert!(allowed(checkout().attribute("consumer", "bob")));
    assert!(allowed(checkout().peer(IpAddr::from([203, 0, 113, 8]))));
}
