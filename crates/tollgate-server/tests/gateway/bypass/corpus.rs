//! The bypass corpus against real servers, which report how they read every request that passes.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::Value;
use tollgate_rig::{Message, Upstream, WebClient};
use tollgate_server::bypass_corpus::{BYPASS_CASES, BypassCase, BypassOutcome, CountedAttribute};

use super::upstreams::{self, RealUpstream};
use crate::support::{Gateway, start_with};

/// The number of requests of each case.
const ATTEMPTS: usize = 5;

#[test]
fn express() {
    assert_corpus_holds(&upstreams::express());
}

#[test]
fn wsgi() {
    assert_corpus_holds(&upstreams::wsgi());
}

#[test]
fn php() {
    assert_corpus_holds(&upstreams::php());
}

#[test]
fn tomcat() {
    assert_corpus_holds(&upstreams::tomcat());
}

/// Runs every case on both doors, and lists all that fail.
fn assert_corpus_holds(upstream: &RealUpstream) {
    let mut failures = String::new();
    for case in BYPASS_CASES {
        for (door, expected, send) in [
            ("gateway", case.gateway, through_gateway as Send),
            ("forward-auth", case.auth, past_forward_auth),
        ] {
            let url = format!("http://{}", upstream.address);
            let gateway = start_with(case.rules, &[&url], |_| {});
            let answers: Vec<CaseResult> =
                (0..ATTEMPTS).map(|n| send(&gateway, upstream.address, case, n)).collect();
            if let Err(why) = check(case, expected, &answers) {
                failures += &format!("\n{door}, {}: {why}", case.name);
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

type Send = fn(&Gateway, SocketAddr, &BypassCase, usize) -> CaseResult;

/// The answer to a request.
#[derive(Debug)]
enum CaseResult {
    Rejected,
    Limited,
    /// The upstream got the request, and read this value.
    Passed(Option<String>),
}

fn request(case: &BypassCase, n: usize) -> (String, Vec<(&'static str, String)>) {
    let number = |text: &str| text.replace("{n}", &n.to_string());
    (number(case.target), case.headers.iter().map(|(name, value)| (*name, number(value))).collect())
}

fn through_gateway(gateway: &Gateway, _: SocketAddr, case: &BypassCase, n: usize) -> CaseResult {
    let (target, headers) = request(case, n);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    result(case, &gateway.connect().send(case.method, &target, &headers, ""))
}

/// Asks forward-auth as a proxy does, then sends the request as the client wrote it.
fn past_forward_auth(
    gateway: &Gateway,
    upstream: SocketAddr,
    case: &BypassCase,
    n: usize,
) -> CaseResult {
    let (target, headers) = request(case, n);
    let mut described = vec![("X-Forwarded-Method", case.method), ("X-Forwarded-Uri", &target)];
    described.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    let decided = WebClient::connect(gateway.http()).send("GET", "/v1/auth", &described, "");
    if decided.status() != 200 {
        return result(case, &decided);
    }
    result(case, &WebClient::connect(upstream).send(case.method, &target, &described[2..], ""))
}

fn result(case: &BypassCase, message: &Message) -> CaseResult {
    let is_problem = message.header("content-type") == Some("application/problem+json");
    match message.status() {
        429 if is_problem => CaseResult::Limited,
        400 if is_problem => CaseResult::Rejected,
        _ => CaseResult::Passed(value(case, message)),
    }
}

/// Returns the value that the upstream read; none if the limit is not about the request.
fn value(case: &BypassCase, message: &Message) -> Option<String> {
    let report: Value = serde_json::from_slice(&message.body).ok()?;
    let field = |name: &str| Some(report.get(name)?.to_string());
    match case.counted {
        CountedAttribute::Route(route) => field("route").filter(|it| *it == format!("{route:?}")),
        CountedAttribute::Header => field("header"),
        CountedAttribute::Cookie => field("cookie"),
        CountedAttribute::Query => field("query"),
        _ => None,
    }
}

fn check(case: &BypassCase, expected: BypassOutcome, answers: &[CaseResult]) -> Result<(), String> {
    let passed: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            CaseResult::Passed(value) => Some(value),
            _ => None,
        })
        .collect();
    let mut by_value: HashMap<&str, usize> = HashMap::new();
    for value in passed.iter().filter_map(|value| value.as_deref()) {
        *by_value.entry(value).or_default() += 1;
    }
    // A method that a header replaces is none that these upstreams read.
    let is_limited = case.method != "POST" && by_value.values().any(|count| *count > 1);
    let is_so = match expected {
        BypassOutcome::Rejected => answers.iter().all(|it| matches!(it, CaseResult::Rejected)),
        BypassOutcome::One => passed.len() == 1,
        _ => !passed.is_empty() && !is_limited,
    };
    match is_so {
        true => Ok(()),
        false => Err(format!("{answers:?}")),
    }
}

#[test]
fn headers_that_name_another_request_are_not_forwarded() {
    let upstream = Upstream::start();
    let sent = [
        ("X-Original-URL", "/admin"),
        ("X-Rewrite-URL", "/admin"),
        ("Tollgate-Deferred", "1"),
        ("X_Api_Key", "a"),
        ("X-Forwarded-Prefix", "/admin"),
        ("X-Org", "acme"),
    ];
    let names = |gateway: &Gateway| {
        assert_eq!(gateway.connect().send("GET", "/", &sent, "").status(), 200);
        let seen = upstream.last();
        let was_sent = |name: &&str| seen.header(&name.to_ascii_lowercase()).is_some();
        sent.iter().map(|(name, _)| *name).filter(was_sent).collect::<Vec<_>>()
    };
    let gateway = start_with(crate::support::OPEN, &[&upstream.url()], |_| {});
    assert_eq!(names(&gateway), ["X-Org"]);
    let gateway = start_with(crate::support::OPEN, &[&upstream.url()], |config| {
        let options = config.gateway.as_mut().unwrap();
        options.pass_headers = vec!["X-Original-URL".to_owned()];
        options.underscores_in_headers = true;
    });
    assert_eq!(names(&gateway), ["X-Original-URL", "X_Api_Key", "X-Org"]);
    let gateway = start_with(crate::support::OPEN, &[&upstream.url()], |config| {
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    assert_eq!(names(&gateway), ["X-Forwarded-Prefix", "X-Org"]);
}
