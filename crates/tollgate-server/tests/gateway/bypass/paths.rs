//! What is asked for: one path, however it is spelled, and the upstream is asked for that one.

use tollgate_rig::Upstream;

use super::passed;
use crate::support::start;

const LOGIN: &str =
    "rules:\n  - { name: login, route: POST /api/login, limit: 3/h fixed first_hit }\n";

/// Spellings of the path that some server, somewhere, takes for `/api/login`.
const SPELLINGS: &[&str] = &[
    "/api/login",
    "//api/login",
    "/api//login",
    "/api/./login",
    "/./api/login",
    "/api/x/../login",
    "/x/../api/login",
    "/../api/login",
    "/api/login/",
    "/api/login//",
    "/api/login/.",
    "/api/login/x/..",
    "/api/login?",
    "/api/login?x=1",
    "/api/login?/../x",
    "/%61pi/login",
    "/api/%6Cogin",
    "/api/%6clogin/../login",
    "/api/%2e/login",
    "/api/%2E/login",
    "/api/x/%2e%2e/login",
    "/api/x/.%2E/login",
    "/api/x/%2e./login",
    "/api%2Flogin",
    "/api%2flogin",
    "\\api\\login",
    "/api\\login",
    "/api%5Clogin",
    "/api/x\\..\\login",
    "/api/x/..%2flogin",
    "/api/x%2f..%2flogin",
    "/api/x/..%5clogin",
    "/api/%2e%2e/api/login",
    "/%2f/api/login",
];

#[test]
fn a_path_is_one_path_however_it_is_spelled() {
    let upstream = Upstream::start();
    let gateway = start(LOGIN, &upstream);
    let mut outside = String::new();
    for spelling in SPELLINGS {
        let (decided, sent) = (gateway.metric(LOGIN_SERIES_ALLOWED), upstream.count());
        let denied = gateway.metric(LOGIN_SERIES_DENIED);
        let status = gateway.connect().send("POST", spelling, &[], "").status();
        let allowed = gateway.metric(LOGIN_SERIES_ALLOWED) - decided;
        let denied = gateway.metric(LOGIN_SERIES_DENIED) - denied;
        // Refused altogether, or the rule's business: never let through without it.
        let is_so = match status {
            400 => upstream.count() == sent,
            200 => allowed == 1 && upstream.count() == sent + 1,
            429 => denied == 1 && upstream.count() == sent,
            _ => false,
        };
        if !is_so {
            outside += &format!("\n{spelling}: {status}, {allowed} allowed, {denied} denied");
        }
    }
    assert!(outside.is_empty(), "{outside}");
    assert_eq!(upstream.count(), 3, "{:?}", upstream.requests());
    // However it was spelled: what was decided on is what is asked for.
    for seen in upstream.requests() {
        let path = seen.target().split('?').next().unwrap().trim_end_matches('/').to_owned();
        assert_eq!(path, "/api/login", "{seen:?}");
    }
}

const LOGIN_SERIES_ALLOWED: &str =
    "tollgate_decisions_total{domain=\"default\",rule=\"login\",outcome=\"allowed\"}";
const LOGIN_SERIES_DENIED: &str =
    "tollgate_decisions_total{domain=\"default\",rule=\"login\",outcome=\"denied\"}";

#[test]
fn the_upstream_is_asked_for_the_path_that_was_decided_on() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: r, per: path, limit: 1/h fixed first_hit }]", &upstream);
    for (written, asked) in [
        ("/a/b", "/a/b"),
        ("/a//c", "/a/c"),
        ("/a/./d", "/a/d"),
        ("/a/x/../e", "/a/e"),
        ("/%61/f", "/a/f"),
        ("/a/%7Eg", "/a/~g"),
        ("/a/h%20i", "/a/h%20i"),
        ("/a/j%e9", "/a/j%E9"),
        ("/a/k?x=//y/../%2e", "/a/k?x=//y/../%2e"),
        ("/a/l/?x", "/a/l/?x"),
        ("/a/m;v=1", "/a/m;v=1"),
        ("/a/n\\o", "/a/n/o"),
        ("//other/p", "/other/p"),
    ] {
        let answer = gateway.connect().send("GET", written, &[], "");
        assert_eq!(answer.status(), 200, "{written}: {answer:?}");
        assert_eq!(upstream.last().target(), asked, "{written}");
        // The spelling the upstream saw is the same counter.
        assert_eq!(gateway.connect().send("GET", asked, &[], "").status(), 429, "{asked}");
    }
}

#[test]
fn what_servers_disagree_about_is_refused() {
    let upstream = Upstream::start();
    let gateway = start(crate::support::OPEN, &upstream);
    for target in [
        "/a#b",
        "/a%00b",
        "/a%0ab",
        "/a%0d%0ab",
        "/a%1fb",
        "/a%7fb",
        "/a%",
        "/a%2",
        "/a%zz",
        "/a%u0041",
        "/x/..%2fadmin",
        "/x/%2e%2e%2fadmin",
        "/x/..%5cadmin",
        "/x%2f..%2fadmin",
        "/%2e%2e%2fadmin",
    ] {
        let answer = gateway.connect().send("GET", target, &[], "");
        assert_eq!(answer.status(), 400, "{target}: {answer:?}");
    }
    assert_eq!((upstream.count(), gateway.decisions()), (0, 0));
}

#[test]
fn methods_and_hosts_are_what_rules_say() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: r, when: host == 'shop.test', limit: 3/h fixed first_hit }]";
    let gateway = start(rules, &upstream);
    let hosts =
        ["shop.test", "SHOP.test", "Shop.Test:80", "shop.test:8080", "shop.test.", "shop.test.:80"];
    let fields: Vec<_> = hosts.iter().map(|host| [("Host", *host)]).collect();
    let requests: Vec<_> = fields.iter().map(|fields| ("GET", "/", &fields[..])).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), 3);
    let absolute = [("Host", "shop.test")];
    let absolute: Vec<_> =
        ["http://shop.test/", "HTTP://SHOP.TEST/x"].map(|to| ("GET", to, &absolute[..])).into();
    assert_eq!(passed(&gateway, &upstream, &absolute), 0, "the same host");
    // Some frameworks take `post` for POST, so it is refused.
    let gateway = start(LOGIN, &upstream);
    let post: [_; 4] = [("POST", "/api/login", &[][..]); 4];
    assert_eq!(passed(&gateway, &upstream, &post), 3);
    let before = upstream.count();
    assert_eq!(gateway.connect().send("post", "/api/login", &[], "").status(), 400);
    // A header that replaces the method is refused: without it the upstream would do another thing.
    let fields = [("X-HTTP-Method-Override", "POST")];
    assert_eq!(gateway.connect().send("GET", "/other", &fields, "").status(), 400);
    assert_eq!(upstream.count(), before);
    // A header that replaces the target changes neither what is decided nor what is sent.
    let fields = [("X-Original-URL", "/api/login")];
    assert_eq!(gateway.connect().send("GET", "/other", &fields, "").status(), 200);
    let seen = upstream.last();
    assert_eq!((seen.method(), seen.target()), ("GET", "/other"));
    assert!(seen.header("x-original-url").is_none());
}
