//! Bodies in chunks: sizes, extensions, ends and trailers.

use super::Fate::{Broken, Passes, Swallowed};
use super::{Corpus, Range, post};

const CHUNKED: &str = "Transfer-Encoding: chunked";

#[test]
fn sizes_that_are_none_break_the_request() {
    Range::new().hold(corpus());
}

/// Sizes and ends of chunks that are none.
pub(super) fn corpus() -> Corpus {
    let bodies = [
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
        "6\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "-0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "0X0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5_0\r\nhello\r\n0\r\n\r\n",
        "5\0\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "\r\n\r\n",
        "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\n",
        "5\r\nhello\r\n0\r\n\rX",
        "5\r\nhello\r\nX",
    ];
    let mut corpus: Corpus = bodies.map(|body| (post(CHUNKED, body), Broken)).into();
    // Two line ends in a row end a body for some, and begin a trailer for others.
    corpus.push((post(CHUNKED, "5\r\nhello\r\n0\r\n\n"), Swallowed));
    corpus
}

#[test]
fn extensions_hide_nothing() {
    let broken = [
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0;\n\r\n\r\n",
    ];
    Range::new().hold(broken.map(|body| (post(CHUNKED, body), Broken)));
    let range = Range::new();
    let fine = ["5;a=b\r\nhello\r\n0\r\n\r\n", "5;a\r\nhello\r\n0;b\r\n\r\n"];
    range.hold(fine.map(|body| (post(CHUNKED, body), Passes(2))));
    assert!(!range.upstream.raw().concat().contains(";a"), "extensions are for one connection");
    let endless = format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(200_000));
    range.hold([(post(CHUNKED, &endless), Broken)]);
    let everywhere: String = (0..10_000).map(|_| "1;aaaaaaaaaa\r\nx\r\n").collect();
    range.hold([(post(CHUNKED, &format!("{everywhere}0\r\n\r\n")), Broken)]);
}

#[test]
fn trailers_change_nothing_that_was_decided() {
    let range = Range::new();
    let fields = [
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "Host: other",
        "X-Forwarded-For: 198.51.100.1",
        "Authorization: Bearer other",
        "Connection: keep-alive",
        "X-Fine: yes",
    ];
    for field in fields {
        let body = format!("5\r\nhello\r\n0\r\n{field}\r\n\r\n");
        range.hold([(post(CHUNKED, &body), Passes(2))]);
    }
    for seen in range.upstream.requests() {
        for (name, _) in seen.trailers {
            assert_eq!(name, "x-fine", "only what changes nothing is passed on");
        }
    }
    let broken = ["A: b\r\n c\r\n\r\n", "A\r\n\r\n", "A : b\r\n\r\n", "A: \0\r\n\r\n"];
    let broken = broken.map(|field| post(CHUNKED, &format!("5\r\nhello\r\n0\r\n{field}")));
    range.hold(broken.map(|bytes| (bytes, Broken)));
    range.hold([(post(CHUNKED, "5\r\nhello\r\n0\r\nA: b\n\r\n"), Swallowed)]);
    let endless = format!("5\r\nhello\r\n0\r\n{}\r\n", "A: b\r\n".repeat(20_000));
    range.hold([(post(CHUNKED, &endless), Broken)]);
}
