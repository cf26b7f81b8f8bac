//! Many requests at once on a connection: each is decided, each is answered, in order.

use tollgate_rig::{AfterResponse, Upstream};

use crate::strict;
use crate::support::start;

const REQUESTS: usize = 1000;
const ALLOWED: usize = 600;

/// An upstream that answers with the target.
fn echo() -> Upstream {
    Upstream::answering(|request, stream| {
        let target = request.target();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len());
        match std::io::Write::write_all(stream, answer.as_bytes()) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    })
}

#[test]
fn a_thousand_in_a_row_are_a_thousand_decisions() {
    let upstream = echo();
    let rules = format!("rules: [{{ name: all, limit: {ALLOWED}/h fixed first_hit }}]");
    let gateway = start(&rules, &upstream);
    let mut client = gateway.connect();
    let pipeline: String = (0..REQUESTS)
        .map(|n| match n % 3 {
            0 => format!("GET /{n} HTTP/1.1\r\nHost: stub\r\n\r\n"),
            1 => format!("POST /{n} HTTP/1.1\r\nHost: stub\r\nContent-Length: 5\r\n\r\nGET /"),
            _ => format!(
                "POST /{n} HTTP/1.1\r\nHost: stub\r\nTransfer-Encoding: chunked\r\n\r\n\
                 5\r\nGET /\r\n0\r\n\r\n"
            ),
        })
        .collect();
    client.write(pipeline);
    for n in 0..REQUESTS {
        let answer = client.read().unwrap();
        let expected = if n < ALLOWED { (200, format!("/{n}")) } else { (429, answer.text()) };
        assert_eq!((answer.status(), answer.text()), expected);
    }
    assert_eq!(gateway.decisions(), REQUESTS);
    assert_eq!(upstream.count(), ALLOWED);
    assert_eq!(strict::requests(&upstream).unwrap().len(), ALLOWED);
}

#[test]
fn a_corpus_in_pieces_is_the_same_corpus() {
    use super::{answers, impatient, lengths, lines};
    let upstream = echo();
    let gateway = impatient(&upstream.url());
    // A byte at a time: what comes together and what does not is up to the machine.
    for (bytes, fate) in [lengths::corpus(), lines::corpus()].concat().into_iter().step_by(3) {
        let mut client = gateway.connect();
        for byte in bytes.chunks(1 + bytes.len() % 7) {
            client.write(byte);
        }
        let statuses: Vec<_> = answers(&mut client, fate).iter().map(|it| it.status()).collect();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert!(statuses.iter().all(|status| *status >= 400), "{shown:?}: {statuses:?}");
        assert_eq!((upstream.count(), gateway.decisions()), (0, 0), "{shown:?}");
    }
}
