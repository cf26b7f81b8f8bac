//! Upstreams that die, dawdle, or close a connection just when it is used.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use tollgate::Clock;
use tollgate_rig::{AfterResponse, Upstream, WebClient};

use super::Honest;
use crate::support::{OPEN, start_with};

const SHORT: Duration = Duration::from_millis(300);
/// Requests that run into each kind of trouble at once.
const AT_ONCE: usize = 20;

/// An upstream that fails in the way the path says.
fn failing() -> Upstream {
    Upstream::answering(|request, stream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
        let (bytes, wait): (&[u8], bool) = match request.target() {
            "/dies-at-once" => (b"", false),
            "/dies-within-the-head" => (b"HTTP/1.1 200 O", false),
            "/dies-after-the-head" => (head, false),
            "/dies-within-the-body" => {
                (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", false)
            }
            "/never-answers" => (b"", true),
            "/half-a-head-and-nothing" => (b"HTTP/1.1 200 OK\r\n", true),
            "/half-a-body-and-nothing" => {
                (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", true)
            }
            "/byte-by-byte" => return dawdle(stream),
            _ => {
                let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";
                return if stream.write_all(whole).is_ok() {
                    AfterResponse::Keep
                } else {
                    AfterResponse::Close
                };
            }
        };
        let _ = stream.write_all(bytes);
        if wait {
            let _ = stream.read(&mut [0]);
        }
        AfterResponse::Close
    })
}

/// Sends an answer byte by byte, with a little time between them.
fn dawdle(stream: &mut TcpStream) -> AfterResponse {
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789" {
        if stream.write_all(&[*byte]).is_err() {
            return AfterResponse::Close;
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    AfterResponse::Keep
}

#[test]
fn failing_responses_are_reported_in_time_and_affect_no_other_request() {
    let upstream = failing();
    let clock = Clock::system();
    println!("| an upstream that | answered | after | honest p99 |");
    for (path, expected) in [
        ("/dies-at-once", Some(502)),
        ("/dies-within-the-head", Some(502)),
        ("/dies-after-the-head", None),
        ("/dies-within-the-body", None),
        ("/never-answers", Some(504)),
        ("/half-a-head-and-nothing", Some(504)),
        ("/half-a-body-and-nothing", None),
        ("/byte-by-byte", Some(200)),
    ] {
        // Only the bound that is to be met is short: a busy machine meets others by itself.
        let gateway = start_with(OPEN, &[&upstream.url()], |config| {
            let options = config.gateway.as_mut().unwrap();
            match path {
                "/half-a-body-and-nothing" => options.pause_timeout = SHORT,
                _ if expected == Some(504) => options.answer_timeout = SHORT,
                _ => {}
            }
        });
        let (began, sent_before) = (clock.now(), upstream.count());
        let hit: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let mut client = gateway.connect();
                let request = format!("GET {path} HTTP/1.1\r\nHost: stub\r\n\r\n");
                std::thread::spawn(move || {
                    client.write(request);
                    // Half an answer is none: the connection ends before it is whole.
                    client.read().map(|answer| answer.status())
                })
            })
            .collect();
        let mut honest = Honest::of(&gateway);
        while hit.iter().any(|hit| !hit.is_finished()) || honest.took.len() < 20 {
            honest.ask();
        }
        let statuses: Vec<_> = hit.into_iter().map(|hit| hit.join().unwrap()).collect();
        let after: Duration = clock.now().since(began).into();
        assert_eq!(statuses, vec![expected; AT_ONCE], "{path}");
        let told = expected.map_or("cut off".to_owned(), |status| status.to_string());
        let (_, p99) = honest.figures();
        println!("| {} | {told} | {} ms | {p99:.2} ms |", &path[1..], after.as_millis());
        // A GET is sent once more if a reused connection breaks before its response begins.
        let max_repeated = if expected == Some(502) { AT_ONCE } else { 0 };
        let repeated = upstream.count() - sent_before - gateway.decisions();
        assert!(repeated <= max_repeated, "{path}: {repeated} requests were sent twice");
    }
}

#[test]
fn one_that_answers_and_leaves_loses_and_doubles_nothing() {
    const REQUESTS: usize = 400;
    // Says nothing of it, and closes right behind its answer.
    let upstream = Upstream::answering(|request, stream| {
        let body = request.target().to_owned();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.shutdown(Shutdown::Both);
        AfterResponse::Close
    });
    let gateway = start_with(OPEN, &[&upstream.url()], |_| {});
    let ask = |client: &mut WebClient, n: usize| {
        let answer = client.send("POST", &format!("/{n}"), &[], "x");
        match answer.status() {
            200 => {
                assert_eq!(answer.text(), format!("/{n}"), "its own answer");
                true
            }
            502 => false,
            other => panic!("{other}: {answer:?}"),
        }
    };
    let mut client = gateway.connect();
    let passed = (0..REQUESTS).filter(|n| ask(&mut client, *n)).count();
    let mut seen: Vec<_> =
        upstream.requests().iter().map(|seen| seen.target().to_owned()).collect();
    let counted = seen.len();
    seen.sort();
    seen.dedup();
    println!(
        "{REQUESTS} requests, each lane closed behind its answer: {passed} answered, {} told 502",
        REQUESTS - passed
    );
    assert_eq!(counted, seen.len(), "none came twice");
    assert!(passed <= counted && counted <= REQUESTS);
    // How often a request is quicker than the news is up to the machine; but never twice in a row,
    // for the next one opens a lane of its own.
    assert!(passed * 2 >= REQUESTS, "a lane that was closed is not used again: {passed}");
}
