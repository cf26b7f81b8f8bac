//! Lines of a head: how they end, what is in them, what they are for.

use super::Fate::{Passes, Refused};
use super::{Corpus, Range, SMUGGLED, post};

fn bytes(texts: &[&str]) -> Vec<u8> {
    texts.concat().into_bytes()
}

/// Everything of this file that is to be refused.
pub(super) fn corpus() -> Corpus {
    [ends(), words(), hosts()].concat()
}

#[test]
fn lines_end_in_cr_and_lf() {
    Range::new().hold(ends());
}

#[test]
fn a_request_line_has_three_words() {
    Range::new().hold(words());
}

fn ends() -> Corpus {
    let heads = [
        "GET /first HTTP/1.1\nHost: stub\n\n",
        "GET /first HTTP/1.1\r\nHost: stub\n\r\n",
        "GET /first HTTP/1.1\nHost: stub\r\n\r\n",
        "GET /first HTTP/1.1\r\nHost: stub\r\n\n",
        "GET /first HTTP/1.1\r\nHost: stub\n\n",
        "GET /first HTTP/1.1\rHost: stub\r\r",
        "GET /first HTTP/1.1\r\nHost: stub\r\n\r\r\n",
        "GET /first HTTP/1.1\r\nHost: stub\rX: y\r\n\r\n",
        "GET /first HTTP/1.1\r\nHost: stub\r\nX: a\rb\r\n\r\n",
        "GET /first HTTP/1.1\r\nHost: stub\r\nX: a\r\r\n\r\n",
        "GET /first HTTP/1.1\r\r\nHost: stub\r\n\r\n",
        "GET /first HTTP/1.1\r\nHost: stub\r\nX: a\nb: c\r\n\r\n",
    ];
    heads.map(|head| (bytes(&[head, SMUGGLED]), Refused)).into()
}

#[test]
fn lines_are_not_folded() {
    let fields = ["X: a\r\n b", "X: a\r\n\tb", "X: a\r\n \r\n", "X:\r\n a", "X: a\r\n b: c"];
    let range = Range::new();
    range.hold(fields.map(|field| (post(field, ""), Refused)));
    let first = "GET /first HTTP/1.1\r\n Host: stub\r\n\r\n";
    let only = "GET /first HTTP/1.1\r\n \r\nHost: stub\r\n\r\n";
    range.hold([first, only].map(|head| (bytes(&[head, SMUGGLED]), Refused)));
}

#[test]
fn names_and_values_are_what_they_may_be() {
    let fields: &[&[u8]] = &[
        b"Bad Name: x",
        b": x",
        b"X",
        b"X : y",
        b"X\t: y",
        b"X\x7f: y",
        b"X(: y",
        b"X\0: y",
        b"X\xe9: y",
        b"X@y: z",
        b"X{y}: z",
        b"X: a\0b",
        b"X: a\x01b",
        b"X: a\x08b",
        b"X: a\x1fb",
        b"X: a\x7fb",
        b"X: \x1b[31m",
    ];
    Range::new().hold(fields.iter().map(|field| (post(field, ""), Refused)));
    let fine: &[&[u8]] =
        &[b"X: a\tb", b"X: \xff\xfe", b"X:", b"X!#$%&'*+-.^_`|~1: y", b"X: \xc3\xa9"];
    Range::new().hold(fine.iter().map(|field| (post(field, ""), Passes(2))));
}

fn words() -> Corpus {
    let lines = [
        "GET /first",
        "GET",
        "GET /first ",
        "GET  /first HTTP/1.1",
        "GET /first  HTTP/1.1",
        "GET /first HTTP/1.1 ",
        "GET\t/first HTTP/1.1",
        "GET /first\tHTTP/1.1",
        "GET /fi rst HTTP/1.1",
        " GET /first HTTP/1.1",
        "/first HTTP/1.1",
        "GET /first HTTP/0.9",
        "GET /first HTTP/1.2",
        "GET /first HTTP/2.0",
        "GET /first HTTP/3",
        "GET /first http/1.1",
        "GET /first HTTP/1.1.1",
        "GET /first HTTP/01.1",
        "GET /first HTP/1.1",
        "GET /first HTTP/1,1",
        "G\0T /first HTTP/1.1",
        "G(T /first HTTP/1.1",
        "GET /fi\0rst HTTP/1.1",
        "GET /fi\x01rst HTTP/1.1",
        "GET /fi\x7frst HTTP/1.1",
        "GET first HTTP/1.1",
        "GET ?first HTTP/1.1",
        "GET * HTTP/1.1",
        "POST * HTTP/1.1",
        "GET stub:80 HTTP/1.1",
        "GET ://first HTTP/1.1",
        "GET http:// HTTP/1.1",
        "GET http:///first HTTP/1.1",
        "GET ftp://stub/first HTTP/1.1",
        "GET file:///etc/passwd HTTP/1.1",
        "CONNECT stub:80 HTTP/1.1",
        "CONNECT / HTTP/1.1",
        "PRI * HTTP/2.0",
    ];
    let whole = |line: &str| bytes(&[line, "\r\nHost: stub\r\n\r\n", SMUGGLED]);
    lines.map(|line| (whole(line), Refused)).into()
}

fn hosts() -> Corpus {
    let heads = [
        "GET /first HTTP/1.1",
        "GET /first HTTP/1.1\r\nHost: stub\r\nHost: stub",
        "GET /first HTTP/1.1\r\nHost: stub\r\nHost: other",
        "GET /first HTTP/1.1\r\nHost: stub\r\nhost: other",
        "GET /first HTTP/1.1\r\nHost: stub, other",
        "GET /first HTTP/1.1\r\nHost: stub other",
        "GET /first HTTP/1.1\r\nHost: user@stub",
        "GET /first HTTP/1.1\r\nHost: stub/first",
        "GET /first HTTP/1.1\r\nHost: stub#x",
        "GET /first HTTP/1.1\r\nHost: stub?x",
        "GET /first HTTP/1.1\r\nHost: http://stub",
        "GET /first HTTP/1.1\r\nHost: stub:port",
        "GET /first HTTP/1.1\r\nHost: stub:80:80",
        "GET /first HTTP/1.1\r\nHost: [::1",
        "GET /first HTTP/1.1\r\nHost: st\"ub",
        "GET /first HTTP/1.1\r\nHost : stub",
        "GET http://other/first HTTP/1.1\r\nHost: stub",
        "GET http://stub:81/first HTTP/1.1\r\nHost: stub:82",
        "GET http://stub@other/first HTTP/1.1\r\nHost: stub",
        "GET http://user:word@stub/first HTTP/1.1\r\nHost: stub",
        "GET http://stub/first HTTP/1.1",
        "GET //other/first HTTP/1.1\r\nHost: stub\r\nHost: other",
    ];
    heads.map(|head| (bytes(&[head, "\r\n\r\n", SMUGGLED]), Refused)).into()
}

#[test]
fn a_request_is_for_one_host() {
    let range = Range::new();
    range.hold(hosts());
    let fine = [
        "GET http://stub/first HTTP/1.1\r\nHost: stub",
        "GET HTTP://STUB/first HTTP/1.1\r\nHost: stub",
        "GET /first HTTP/1.1\r\nHost: STUB.",
        "GET /first HTTP/1.1\r\nHost: [::1]:80",
        "OPTIONS * HTTP/1.1\r\nHost: stub",
    ];
    range.hold(fine.map(|head| (bytes(&[head, "\r\n\r\n", SMUGGLED]), Passes(2))));
    let targets: Vec<_> =
        range.upstream.requests().iter().map(|it| it.target().to_owned()).collect();
    assert!(targets.iter().all(|target| !target.contains("://")), "{targets:?}");
}

#[test]
fn empty_lines_before_a_request_are_no_request() {
    let range = Range::new();
    range.hold([
        (bytes(&["\r\n", SMUGGLED]), Passes(1)),
        (bytes(&[SMUGGLED, "\r\n\r\n", SMUGGLED]), Passes(2)),
        (bytes(&["\0", SMUGGLED]), Refused),
    ]);
}

#[test]
fn heads_have_a_bound() {
    let head =
        |more: &str| bytes(&["GET /first HTTP/1.1\r\nHost: stub\r\n", more, "\r\n", SMUGGLED]);
    let long = "y".repeat(200_000);
    Range::new().hold([
        (head(&format!("X: {long}\r\n")), Refused),
        (head(&format!("{long}: x\r\n")), Refused),
        (head(&"A: b\r\n".repeat(20_000)), Refused),
        (bytes(&["GET /", &long, " HTTP/1.1\r\nHost: stub\r\n\r\n", SMUGGLED]), Refused),
        (bytes(&[&long, " / HTTP/1.1\r\nHost: stub\r\n\r\n", SMUGGLED]), Refused),
    ]);
}
