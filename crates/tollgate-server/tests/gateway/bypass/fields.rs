//! What is counted by a header: whose value it is does not depend on how it is written, and no
//! value is taken for another.

use std::collections::HashSet;

use tollgate_rig::{Message, Upstream};

use super::{Fields, passed};
use crate::support::start;

const PER_ORG: &str = "rules: [{ name: r, per: 'header[\"x-org\"]', limit: 3/h fixed first_hit }]";

#[test]
fn a_name_is_counted_whatever_its_case_and_padding() {
    let upstream = Upstream::start();
    let gateway = start(PER_ORG, &upstream);
    let spellings: &[Fields<'_>] = &[
        &[("X-Org", "acme")],
        &[("x-org", "acme")],
        &[("X-ORG", "  acme")],
        &[("X-Org", "acme \t ")],
        &[("X-Org", "\tacme")],
        &[("X_Org", "other"), ("X-Org", "acme")],
        &[("X-Org", "acme"), ("Keep-Alive", "x-org")],
    ];
    let requests: Vec<_> = spellings.iter().map(|fields| ("GET", "/", *fields)).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), 3);
}

#[test]
fn a_header_that_is_not_forwarded_is_not_counted() {
    let upstream = Upstream::start();
    let gateway = start(PER_ORG, &upstream);
    let names = ["X-Org", "close, x-org", "x-org, upgrade", "keep-alive,X-ORG"];
    let values: Vec<String> = (0..20).map(|number| format!("r{number}")).collect();
    let fields: Vec<_> = values
        .iter()
        .zip(names.iter().cycle())
        .map(|(value, name)| [("X-Org", value.as_str()), ("Connection", *name)])
        .collect();
    let requests: Vec<_> = fields.iter().map(|fields| ("GET", "/", &fields[..])).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), 3, "as those without the header");
    assert!(upstream.requests().iter().all(|seen| seen.header("x-org").is_none()));
    let without: [_; 1] = [("GET", "/", &[][..])];
    assert_eq!(passed(&gateway, &upstream, &without), 0);
}

#[test]
fn a_header_twice_is_what_the_upstream_is_told() {
    let upstream = Upstream::start();
    let gateway = start(PER_ORG, &upstream);
    // The same twice is the same caller.
    let once: Fields<'_> = &[("X-Org", "acme")];
    let same: Fields<'_> = &[("X-Org", "acme"), ("x-org", "acme ")];
    let requests: Vec<_> = [once, same].repeat(3).into_iter().map(|it| ("GET", "/", it)).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), 3);
    assert!(upstream.requests().iter().all(|seen| seen.all("x-org").eq(["acme"])));
    // Two different ones are one value to the rules and to the upstream, which cannot choose.
    let twice: Fields<'_> = &[("X-Org", "acme"), ("X-Org", "other")];
    let apart: Fields<'_> = &[("X-Org", "acme"), ("X-Else", "y"), ("x-org", "other")];
    let joined: Fields<'_> = &[("X-Org", "acme, other")];
    let requests: Vec<_> =
        [twice, apart, joined].repeat(3).into_iter().map(|it| ("GET", "/", it)).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), 3);
    assert!(upstream.requests()[3..].iter().all(|seen| seen.all("x-org").eq(["acme, other"])));
}

#[test]
fn tenants_are_told_apart() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: r, per: ['header[\"x-org\"]', 'header[\"x-user\"]'], limit: 1/h fixed first_hit }]";
    let gateway = start(rules, &upstream);
    let pairs = [
        ("a", "b:c"),
        ("a:b", "c"),
        ("a|b", "c"),
        ("a", "b|c"),
        ("a,b", "c"),
        ("a", "b,c"),
        ("a{b}", "c"),
        ("{a}", "{b}"),
        ("a", "{b}"),
        ("a/b", "c"),
        ("a", "b/c"),
        ("a;b", "c"),
        ("a%00b", "c"),
        ("a", "%00b,c"),
        ("a\\", "b"),
        ("a", "\\b"),
        ("a=b", "c"),
        ("\"a\"", "b"),
        ("a", "\"b\""),
        ("A", "b:c"),
        ("\u{e9}", "x"),
        ("e\u{301}", "x"),
    ];
    let fields: Vec<_> =
        pairs.iter().map(|(org, user)| [("X-Org", *org), ("X-User", *user)]).collect();
    let requests: Vec<_> = fields.iter().map(|fields| ("GET", "/", &fields[..])).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), pairs.len(), "nobody pays for another");
    assert_eq!(passed(&gateway, &upstream, &requests), 0, "and everybody once");
}

#[test]
fn what_is_no_text_is_refused_or_counted() {
    let upstream = Upstream::start();
    let gateway = start(PER_ORG, &upstream);
    let mut statuses = HashSet::new();
    for value in [&b"acme\0"[..], b"ac\x01me", b"acme\x7f", b"\x0bacme", b"acme\x0c"] {
        let mut client = gateway.connect();
        let head = [b"GET / HTTP/1.1\r\nHost: stub\r\nX-Org: ", value, b"\r\n\r\n"].concat();
        client.write(head);
        statuses.insert(client.read().as_ref().map_or(0, Message::status));
    }
    assert_eq!(statuses, HashSet::from([400]));
    // Bytes that are no text are a caller like any other, and told apart as the upstream would.
    let odd: [&[u8]; 6] =
        [b"\xff", b"\xfe", b"caf\xe9", "caf\u{e9}".as_bytes(), b"\xef\xbf\xbd", b"\xc3"];
    for value in odd {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            let mut client = gateway.connect();
            client.write([b"GET / HTTP/1.1\r\nHost: stub\r\nX-Org: ", value, b"\r\n\r\n"].concat());
            statuses.push(client.read().unwrap().status());
        }
        assert_eq!(statuses, [200, 200, 200, 429], "{value:x?}");
    }
}

#[test]
fn no_header_is_a_caller_too() {
    let upstream = Upstream::start();
    let gateway = start(PER_ORG, &upstream);
    let without: Fields<'_> = &[];
    let empty: Fields<'_> = &[("X-Org", "")];
    let named: Fields<'_> = &[("Connection", "x-org")];
    let requests: Vec<_> =
        [without, named].repeat(5).into_iter().map(|it| ("GET", "/", it)).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), 3);
    let requests: Vec<_> = [empty].repeat(5).into_iter().map(|it| ("GET", "/", it)).collect();
    assert!(passed(&gateway, &upstream, &requests) <= 3);
}
