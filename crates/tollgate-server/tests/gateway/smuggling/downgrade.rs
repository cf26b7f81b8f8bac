//! HTTP/2 in front, HTTP/1.1 behind: what one can say and the other would take for something else.

use std::time::Duration;

use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, StreamResult, Wire, fields, frame};
use crate::strict;

use super::Range;

type Fields<'f> = Vec<(&'f str, &'f str)>;

/// A head with some of its pseudo-headers replaced (or left out), and fields of its own.
fn head<'f>(pseudo: &[(&'f str, Option<&'f str>)], more: &[(&'f str, &'f str)]) -> Fields<'f> {
    let usual =
        [(":method", "POST"), (":scheme", "http"), (":authority", "stub"), (":path", "/first")];
    let mut head: Fields<'f> = Vec::new();
    for (name, value) in usual {
        match pseudo.iter().find(|(replaced, _)| *replaced == name) {
            Some((_, value)) => head.extend(value.map(|value| (name, value))),
            None => head.push((name, value)),
        }
    }
    head.extend(more);
    head
}

/// Sends a head with a body; how it was answered.
fn fire(range: &Range, head: &Fields<'_>, body: &[u8]) -> StreamResult {
    let mut wire = Wire::connect(range.gateway.address());
    let mut bytes = frame(HEADERS, END_HEADERS, 1, &fields(head));
    bytes.extend(frame(DATA, END_STREAM, 1, body));
    wire.write(&bytes);
    wire.result(1)
}

/// All of these are refused, before anything is decided.
fn refused(heads: &[Fields<'_>]) {
    let range = Range::new();
    let mut wrong = String::new();
    for head in heads {
        let decided = range.gateway.decisions();
        let result = fire(&range, head, b"hello");
        let decided = range.gateway.decisions() - decided;
        if decided > 0 || result == StreamResult::Fine {
            wrong += &format!("\n{head:?}: {result:?}, {decided} decided");
        }
    }
    if range.upstream.count() > 0 {
        wrong += &format!("\nsent on: {:?}", range.upstream.raw());
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(fire(&range, &head(&[], &[]), b"hello"), StreamResult::Fine, "and it goes on");
    assert_eq!(range.upstream.last().text(), "hello");
}

#[test]
fn what_is_about_a_connection_of_http1_is_refused() {
    refused(&[
        head(&[], &[("transfer-encoding", "chunked")]),
        head(&[], &[("transfer-encoding", "chunked"), ("content-length", "5")]),
        head(&[], &[("connection", "close")]),
        head(&[], &[("connection", "x-forwarded-for")]),
        head(&[], &[("keep-alive", "timeout=5")]),
        head(&[], &[("proxy-connection", "keep-alive")]),
        head(&[], &[("upgrade", "websocket")]),
        head(&[], &[("te", "gzip")]),
        head(&[], &[("Content-Length", "5")]),
        head(&[], &[("X-Upper", "y")]),
    ]);
}

#[test]
fn lines_within_fields_are_refused() {
    refused(&[
        head(&[], &[("x", "a\r\ntransfer-encoding: chunked")]),
        head(&[], &[("x", "a\nb: c")]),
        head(&[], &[("x", "a\rb")]),
        head(&[], &[("x", "a\0b")]),
        head(&[], &[("x: y\r\ntransfer-encoding", "chunked")]),
        head(&[], &[("x y", "z")]),
        head(&[], &[("x:y", "z")]),
        head(&[], &[("x:", "z")]),
        head(&[], &[("", "z")]),
        head(&[(":method", Some("GET /other HTTP/1.1\r\nHost: x\r\n\r\nGET"))], &[]),
        head(&[(":method", Some("GE T"))], &[]),
        head(&[(":method", Some(""))], &[]),
        head(&[(":path", Some("/first HTTP/1.1\r\nx: y"))], &[]),
        head(&[(":path", Some("/fi rst"))], &[]),
        head(&[(":path", Some("/fi\0rst"))], &[]),
        head(&[(":path", Some("/fi\tst"))], &[]),
        head(&[(":path", Some("/first\r\n"))], &[]),
        head(&[(":authority", Some("stub\r\nx: y"))], &[]),
        head(&[(":authority", Some("st ub"))], &[]),
        head(&[(":scheme", Some("http\r\n"))], &[]),
    ]);
}

#[test]
fn targets_that_are_none_are_refused() {
    refused(&[
        head(&[(":path", Some(""))], &[]),
        head(&[(":path", Some("first"))], &[]),
        head(&[(":path", Some("*"))], &[]),
        head(&[(":path", Some("http://other/first"))], &[]),
        head(&[(":path", Some("?x"))], &[]),
        head(&[(":path", None)], &[]),
        head(&[(":method", None)], &[]),
        head(&[(":method", Some("CONNECT"))], &[]),
        head(&[(":method", Some("CONNECT")), (":scheme", None), (":path", None)], &[]),
        head(&[], &[(":path", "/other")]),
        head(&[], &[("x", "y"), (":path", "/other")]),
        head(&[], &[(":status", "200")]),
        head(&[], &[(":unknown", "x")]),
    ]);
}

#[test]
fn a_request_is_for_one_host() {
    refused(&[
        head(&[], &[("host", "other")]),
        head(&[], &[("host", "stub"), ("host", "other")]),
        head(&[(":authority", None)], &[("host", "stub"), ("host", "other")]),
        head(&[(":authority", None)], &[]),
        head(&[(":authority", Some(""))], &[]),
        head(&[(":authority", Some("user@stub"))], &[]),
        head(&[(":authority", Some("user:word@stub"))], &[]),
        head(&[(":authority", Some("stub/path"))], &[]),
        head(&[(":authority", Some("stub, other"))], &[]),
        head(&[(":authority", Some("stub:port"))], &[]),
    ]);
}

#[test]
fn hosts_and_cookies_are_put_together() {
    let range = Range::new();
    let fine = [
        head(&[], &[("host", "stub")]),
        head(&[(":authority", None)], &[("host", "stub")]),
        head(&[], &[("cookie", "a=b"), ("cookie", "c=d")]),
        head(&[], &[("te", "trailers")]),
    ];
    for head in &fine {
        assert_eq!(fire(&range, head, b"hello"), StreamResult::Fine, "{head:?}");
        let seen = range.upstream.last();
        let hosts: Vec<_> = seen.all("host").collect();
        assert_eq!((hosts, seen.text().as_str()), (vec!["stub"], "hello"), "{head:?}");
    }
    let seen = range.upstream.requests();
    let cookies: Vec<_> = seen[2].all("cookie").collect();
    assert_eq!(cookies, ["a=b; c=d"]);
    assert_eq!(range.gateway.decisions(), fine.len());
    assert_eq!(strict::requests(&range.upstream).unwrap().len(), fine.len());
}

#[test]
fn a_path_is_one_path_by_either_protocol() {
    let range = Range::new();
    for written in ["/a/b", "//a//b", "/a/./b", "/x/../a/b", "/%61/b", "/a\\b", "/a/%2e/b"] {
        assert_eq!(fire(&range, &head(&[(":path", Some(written))], &[]), b"x"), StreamResult::Fine);
        assert_eq!(range.upstream.last().target(), "/a/b", "{written}");
    }
}

#[test]
fn a_length_that_lies_is_no_way_in() {
    let range = Range::new();
    let smuggled = super::SMUGGLED.as_bytes();
    for (length, body) in [
        ("0", smuggled),
        ("5", smuggled),
        ("1000", smuggled),
        ("5, 5", b"hello"),
        ("+5", b"hello"),
        ("-5", b"hello"),
        ("5x", b"hello"),
        ("", b"hello"),
        ("18446744073709551621", b"hello"),
    ] {
        let result = fire(&range, &head(&[], &[("content-length", length)]), body);
        assert_ne!(result, StreamResult::Fine, "{length:?}");
    }
    let two = head(&[], &[("content-length", "5"), ("content-length", "6")]);
    assert_ne!(fire(&range, &two, b"hello"), StreamResult::Fine);
    // A connection that broke off says so to the stub soon after.
    std::thread::park_timeout(Duration::from_millis(50));
    let requests = strict::requests(&range.upstream).unwrap();
    assert!(requests.len() <= range.gateway.decisions(), "{requests:?}");
    assert!(requests.iter().all(|(_, target)| target == "/first"), "{requests:?}");
    assert_eq!(fire(&range, &head(&[], &[("content-length", "5")]), b"hello"), StreamResult::Fine);
    assert_eq!(range.upstream.last().text(), "hello");
}

#[test]
fn trailers_change_nothing_that_was_decided() {
    let range = Range::new();
    for trailer in [
        ("content-length", "3"),
        ("transfer-encoding", "chunked"),
        ("host", "other"),
        ("x-forwarded-for", "198.51.100.1"),
        (":path", "/other"),
        ("x", "a\r\nb: c"),
    ] {
        let mut wire = Wire::connect(range.gateway.address());
        let mut bytes = frame(HEADERS, END_HEADERS, 1, &fields(&head(&[], &[])));
        bytes.extend(frame(DATA, 0, 1, b"hello"));
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields(&[trailer])));
        wire.write(&bytes);
        wire.result(1);
    }
    let requests = strict::requests(&range.upstream).unwrap();
    assert!(requests.len() <= range.gateway.decisions());
    assert!(requests.iter().all(|(_, target)| target == "/first"), "{requests:?}");
    for seen in range.upstream.requests() {
        assert_eq!(seen.trailers, [], "{seen:?}");
    }
}
