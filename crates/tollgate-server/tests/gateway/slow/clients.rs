//! Clients that are slow, or say nothing at all.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use tollgate::Clock;
use tollgate_rig::{AfterResponse, Upstream};

use super::Honest;
use crate::support::{Gateway, OPEN, start_with};

const SHORT: Duration = Duration::from_millis(200);
/// The maximum pause of a steady client on a busy machine.
const STEADY: Duration = Duration::from_secs(2);
/// The maximum duration of an honest request on a busy machine.
const PATIENCE_MS: f64 = 5_000.0;

/// A kind of slow client: the bytes it sends first, and the bytes it then repeats.
struct SlowClient {
    name: &'static str,
    count: usize,
    first: String,
    again: &'static str,
    /// Whether the client is cut off. A client that sends a body steadily is not, unless it is slower
    /// than the least rate.
    is_cut_off: bool,
}

/// Slow clients that never complete a head.
fn heads() -> Vec<SlowClient> {
    vec![
        slow_client("says nothing", 300, "", "", true),
        slow_client("half a head", 300, "GET / HTTP/1.1\r\nHost: st", "", true),
        slow_client("a head byte by byte", 100, "GET / HTTP/1.1\r\nX: ", "x", true),
        slow_client("endless fields", 100, "GET / HTTP/1.1\r\n", "X: y\r\n", true),
        slow_client("half a preface", 100, "PRI * HTTP/2.0\r\n\r\nSM", "", true),
    ]
}

fn slow_client(
    name: &'static str,
    count: usize,
    first: &str,
    again: &'static str,
    ends: bool,
) -> SlowClient {
    SlowClient { name, count, first: first.to_owned(), again, is_cut_off: ends }
}

/// Slow clients that never complete a body, or never read a response.
fn bodies() -> Vec<SlowClient> {
    let upload = "POST / HTTP/1.1\r\nHost: stub\r\nContent-Length: 100000\r\n\r\nx";
    let chunks = "POST / HTTP/1.1\r\nHost: stub\r\nTransfer-Encoding: chunked\r\n\r\n";
    vec![
        slow_client("half a body", 100, upload, "", true),
        slow_client("half a chunk", 100, &format!("{chunks}5\r\nhe"), "", true),
        slow_client("a body byte by byte", 50, upload, "x", false),
        slow_client("a body below the least rate", 50, upload, "x", true),
        slow_client(
            "reads nothing",
            50,
            &"GET /big HTTP/1.1\r\nHost: stub\r\n\r\n".repeat(50),
            "",
            true,
        ),
    ]
}

fn gateway(upstream: &Upstream, upload_timeout: Duration) -> Gateway {
    start_with(OPEN, &[&upstream.url()], |config| {
        config.bounds.header_timeout = SHORT;
        config.bounds.write_timeout = SHORT;
        // The honest client pauses too.
        config.bounds.idle_timeout = STEADY;
        let options = config.gateway.as_mut().unwrap();
        options.upload_timeout = upload_timeout;
        options.upload_min_rate = if upload_timeout == SHORT { 1 << 20 } else { 0 };
    })
}

#[test]
fn slow_heads_are_cut_off_and_honest_clients_do_not_notice() {
    hold(heads());
}

#[test]
fn slow_bodies_are_cut_off_and_honest_clients_do_not_notice() {
    hold(bodies());
}

fn hold(kinds: Vec<SlowClient>) {
    let big = vec![b'x'; 1 << 20];
    let upstream = Upstream::answering(move |request, stream| {
        let body = if request.target() == "/big" { &big[..] } else { b"fine" };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let wrote = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        if wrote.is_ok() { AfterResponse::Keep } else { AfterResponse::Close }
    });
    let clock = Clock::system();
    let mut decisions = 0;
    println!("| clients | that | cut off after | honest p50 | honest p99 |");
    for kind in kinds {
        let pause = if kind.is_cut_off { SHORT } else { STEADY };
        let gateway = gateway(&upstream, pause);
        let mut streams: Vec<_> =
            (0..kind.count).map(|_| TcpStream::connect(gateway.address()).unwrap()).collect();
        for stream in &mut streams {
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write_all(kind.first.as_bytes());
        }
        let mut honest = Honest::of(&gateway);
        let began = clock.now();
        let is_cut_off = loop {
            honest.ask();
            for stream in &mut streams {
                let _ = stream.write_all(kind.again.as_bytes());
            }
            let waited: Duration = clock.now().since(began).into();
            if gateway.connections() <= 1 {
                break true;
            }
            if !kind.is_cut_off && waited > pause * 3 / 2 {
                break false;
            }
            assert!(waited < crate::DEADLINE, "{}: {} left", kind.name, gateway.connections());
            std::thread::park_timeout(Duration::from_millis(5));
        };
        let after: Duration = clock.now().since(began).into();
        let (p50, p99) = honest.figures();
        let after = if is_cut_off { format!("{} ms", after.as_millis()) } else { "never".into() };
        println!("| {} | {} | {after} | {p50:.2} ms | {p99:.2} ms |", kind.count, kind.name);
        assert_eq!(is_cut_off, kind.is_cut_off, "{}", kind.name);
        assert!(p99 < PATIENCE_MS, "{}: {p99}", kind.name);
        drop((streams, honest));
        tollgate_rig::until("all have left", || gateway.connections() == 0);
        decisions += gateway.decisions();
    }
    assert!(upstream.count() <= decisions);
}
