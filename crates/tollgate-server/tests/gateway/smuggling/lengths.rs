//! The end of a body: Content-Length, Transfer-Encoding, both, neither, and everything that
//! resembles them.

use super::Fate::{Passes, Refused};
use super::{Corpus, Range, post};

/// Everything of this file that is to be refused.
pub(super) fn corpus() -> Corpus {
    [both(), codings(), lengths()].concat()
}

#[test]
fn a_length_and_a_coding_together_are_refused() {
    Range::new().hold(both());
}

#[test]
fn every_coding_but_chunked_is_refused() {
    Range::new().hold(codings());
}

#[test]
fn a_length_is_one_number() {
    Range::new().hold(lengths());
}

fn both() -> Corpus {
    let bodies = ["0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", ""];
    let pairs = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 49\r\nX: y\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nX: y\r\nContent-Length: 0",
        "CONTENT-LENGTH: 5\r\nTRANSFER-ENCODING: CHUNKED",
        "Transfer-Encoding: identity\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding:",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: 5",
    ];
    let all = pairs.iter().flat_map(|pair| bodies.map(|body| (post(pair, body), Refused)));
    all.collect()
}

fn codings() -> Corpus {
    let fields: &[&[u8]] = &[
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: gzip",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: identity, chunked",
        b"Transfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: chunked,",
        b"Transfer-Encoding: ,chunked",
        b"Transfer-Encoding: chunked; q=1",
        b"Transfer-Encoding: chunked;",
        b"Transfer-Encoding: \"chunked\"",
        b"Transfer-Encoding: 'chunked'",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: chunkedx",
        b"Transfer-Encoding: chun ked",
        b"Transfer-Encoding: chunked\xa0",
        b"Transfer-Encoding: \xef\xbb\xbfchunked",
        b"Transfer-Encoding: \x0bchunked",
        b"Transfer-Encoding:\x0bchunked",
        b"Transfer-Encoding:\x0cchunked",
        b"Transfer-Encoding: chunked\x0b",
        b"Transfer-Encoding: chunked\0",
        b"Transfer-Encoding: \0chunked",
        b"Transfer-Encoding: chunked\x7f",
        b"Transfer-Encoding:",
        b"Transfer-Encoding: ",
        b"Transfer-Encoding",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding\t: chunked",
        b"Transfer-Encoding\x0b: chunked",
        b"Transfer-Encoding\0: chunked",
        b"Transfer Encoding: chunked",
        b"\tTransfer-Encoding: chunked",
        b" Transfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: x\r\nTransfer-encoding: chunked",
        b"Transfer-Encoding:\r\n chunked",
        b"Transfer-Encoding: chunked\r\n , identity",
        b"Transfer-Encoding: chunked\r\n\tx",
        b"X: y\nTransfer-Encoding: chunked",
        b"X: y\rTransfer-Encoding: chunked",
        b"X: y\n\rTransfer-Encoding: chunked",
        b"X: y\0\r\nTransfer-Encoding: chunked",
    ];
    let bodies = ["0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"];
    let all = fields.iter().flat_map(|field| bodies.map(|body| (post(field, body), Refused)));
    all.collect()
}

#[test]
fn chunked_in_any_case_is_one_way_to_say_it() {
    let fields = [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: Chunked",
        "TRANSFER-ENCODING: CHUNKED",
        "transfer-encoding:chunked",
        "Transfer-Encoding:\tchunked",
        "Transfer-Encoding:  chunked \t ",
    ];
    let range = Range::new();
    // Both requests are whole, and both are decided.
    range.hold(fields.map(|field| (post(field, "5\r\nhello\r\n0\r\n\r\n"), Passes(2))));
    let seen = range.upstream.requests();
    let firsts: Vec<_> = seen.iter().filter(|seen| seen.target() == "/first").collect();
    assert!(firsts.iter().all(|seen| seen.text() == "hello"), "{seen:?}");
    assert_eq!(firsts.len(), fields.len());
}

fn lengths() -> Corpus {
    let fields: &[&[u8]] = &[
        b"Content-Length: 5\r\nContent-Length: 5",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 0\r\ncontent-length: 50",
        b"Content-Length: 5, 5",
        b"Content-Length: 5, 6",
        b"Content-Length: 5,",
        b"Content-Length: ,5",
        b"Content-Length: +5",
        b"Content-Length: -5",
        b"Content-Length: -0",
        b"Content-Length: 0x5",
        b"Content-Length: 5.0",
        b"Content-Length: 5e0",
        b"Content-Length: 5 5",
        b"Content-Length: 5\t5",
        b"Content-Length: 5;",
        b"Content-Length: 5\x0b",
        b"Content-Length: \x0c5",
        b"Content-Length: 5\0",
        b"Content-Length: \"5\"",
        b"Content-Length: five",
        b"Content-Length: \xd9\xa5",
        b"Content-Length:",
        b"Content-Length: ",
        b"Content-Length",
        b"Content-Length : 5",
        b"Content-Length\t: 5",
        b"Content-Length\0: 5",
        b"Content Length: 5",
        b" Content-Length: 5",
        b"Content-Length:\r\n 5",
        b"Content-Length: 5\r\n 5",
        b"Content-Length: 18446744073709551615",
        b"Content-Length: 18446744073709551616",
        b"Content-Length: 18446744073709551621",
        b"Content-Length: 99999999999999999999999999",
        b"X: y\nContent-Length: 5",
        b"X: y\rContent-Length: 5",
    ];
    fields.iter().map(|field| (post(field, "hello"), Refused)).collect()
}

#[test]
fn what_is_in_a_body_is_no_request() {
    let range = Range::new();
    let body = super::SMUGGLED;
    let within = |method: &str| {
        let length = body.len();
        format!("{method} /first HTTP/1.1\r\nHost: stub\r\nContent-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    };
    let methods = ["POST", "GET", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE"];
    range.hold(methods.map(|method| (within(method), Passes(1))));
    let seen = range.upstream.requests();
    assert!(seen.iter().all(|seen| seen.target() != "/smuggled"), "{seen:?}");
    // One after the other on the same connection: the last is a request of its own.
    let both = [within("POST"), body.as_bytes().to_vec()].concat();
    range.hold([(both, Passes(2)), (post("Content-Length: 005", "hello"), Refused)]);
}

#[test]
fn no_length_means_no_body() {
    let range = Range::new();
    for names in ["Content_Length: 5", "Transfer_Encoding: chunked", "X-Content-Length: 5"] {
        range.hold([(post(names, ""), Passes(2))]);
    }
    for method in ["GET", "POST", "DELETE"] {
        let request = format!("{method} /first HTTP/1.1\r\nHost: stub\r\n\r\n");
        range.hold([(request.into_bytes(), Passes(1))]);
        assert_eq!(range.upstream.last().text(), "");
    }
}

#[test]
fn an_old_version_has_no_chunks() {
    let old = |fields: &str, body: &str| {
        format!("POST /first HTTP/1.0\r\nHost: stub\r\n{fields}\r\n\r\n{body}{}", super::SMUGGLED)
            .into_bytes()
    };
    let range = Range::new();
    range.hold([
        (old("Transfer-Encoding: chunked", "0\r\n\r\n"), Refused),
        (old("Transfer-Encoding: chunked\r\nConnection: keep-alive", "0\r\n\r\n"), Refused),
        (old("Content-Length: 5\r\nTransfer-Encoding: chunked", "hello"), Refused),
        // Without keep-alive the connection ends with the first answer.
        (old("Content-Length: 5", "hello"), Passes(1)),
        (old("Content-Length: 5\r\nConnection: keep-alive", "hello"), Passes(2)),
    ]);
}
