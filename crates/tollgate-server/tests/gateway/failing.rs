//! Upstreams that fail, and clients that are slow.

use std::io::Write;
use std::time::Duration;

use tollgate_rig::{AfterResponse, Upstream, until};
use tollgate_server::config::GatewayOptions;

use crate::support::{Gateway, OPEN, start, start_with};

fn set_up(upstreams: &[&str], set_up: impl FnOnce(&mut GatewayOptions)) -> Gateway {
    start_with(OPEN, upstreams, |config| set_up(config.gateway.as_mut().unwrap()))
}

fn free_url() -> String {
    let upstream = Upstream::start();
    upstream.url()
}

#[test]
fn clients_are_told_what_is_the_matter_and_no_more() {
    let (gone, silent) = (free_url(), Upstream::answering(|_, _| forever()));
    let closing = Upstream::answering(|_, _| AfterResponse::Close);
    let garbled = Upstream::answering(|_, stream| {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n\r\n");
        AfterResponse::Close
    });
    for (url, status, code) in [
        (gone, 503, "upstream-unreachable"),
        (silent.url(), 504, "upstream-timeout"),
        (closing.url(), 502, "bad-gateway"),
        (garbled.url(), 502, "bad-gateway"),
    ] {
        let gateway = set_up(&[&url], |options| {
            if status == 504 {
                options.answer_timeout = Duration::from_millis(300);
            }
        });
        let mut client = gateway.connect();
        let answer = client.get("/");
        assert_eq!(answer.status(), status, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let text = answer.text();
        assert!(text.contains(code) && !text.contains("127.0.0.1"), "{text}");
        assert_eq!(client.get("/").status(), status, "the connection goes on");
        let counted = r#"tollgate_gateway_requests_total{from="gateway",code="5xx"} 2"#;
        assert!(gateway.metrics().contains(counted), "{}", gateway.metrics());
    }
}

#[test]
fn requests_go_to_upstreams_that_respond() {
    let (gone, upstream) = (free_url(), Upstream::start());
    let gateway = set_up(&[&gone, &upstream.url()], |_| {});
    for _ in 0..20 {
        assert_eq!(gateway.connect().get("/").status(), 200);
    }
    let metrics = gateway.metrics();
    let healthy = |url: &str| {
        let name = format!("tollgate_gateway_upstream_healthy{{upstream=\"{url}\"}} ");
        metrics.split(&name).nth(1).and_then(|rest| rest.chars().next())
    };
    assert_eq!((healthy(&gone), healthy(&upstream.url())), (Some('0'), Some('1')), "{metrics}");
}

#[test]
fn who_says_that_it_is_unwell_gets_no_requests() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let sick = Arc::new(AtomicBool::new(true));
    let told = sick.clone();
    let one = Upstream::answering(move |request, stream| {
        let sick = request.target() == "/health" && told.load(Ordering::Relaxed);
        let status = if sick { 503 } else { 200 };
        let _ = stream
            .write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").as_bytes());
        AfterResponse::Keep
    });
    let other = Upstream::start();
    let gateway = set_up(&[&one.url(), &other.url()], |options| {
        options.health = Some("/health".into());
        options.health_interval = Duration::from_millis(50);
    });
    let line = format!("tollgate_gateway_upstream_healthy{{upstream=\"{}\"}} ", one.url());
    until("it is ejected", || gateway.metrics().contains(&format!("{line}0")));
    let asked = |upstream: &Upstream| {
        upstream.requests().iter().filter(|seen| seen.target() == "/").count()
    };
    for _ in 0..10 {
        assert_eq!(gateway.connect().get("/").status(), 200);
    }
    assert_eq!((asked(&one), asked(&other)), (0, 10));
    sick.store(false, Ordering::Relaxed);
    until("it is back", || gateway.metrics().contains(&format!("{line}1")));
    until("it is asked", || {
        gateway.connect().get("/");
        asked(&one) > 0
    });
}

#[test]
fn an_upstream_that_comes_back_is_found_again() {
    let (first, second) = (Upstream::start(), Upstream::start());
    let gateway = set_up(&[&first.url(), &second.url()], |_| {});
    let address = first.address();
    let healthy = format!("tollgate_gateway_upstream_healthy{{upstream=\"{}\"}} ", first.url());
    drop(first);
    until("it is ejected", || {
        assert_eq!(gateway.connect().get("/").status(), 200, "nobody notices");
        gateway.metrics().contains(&format!("{healthy}0"))
    });
    let back = Upstream::answering_at(address, |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        AfterResponse::Keep
    });
    until("it is back", || {
        assert_eq!(gateway.connect().get("/").status(), 200);
        back.count() > 0
    });
    assert!(gateway.metrics().contains(&format!("{healthy}1")));
}

#[test]
fn idle_upstream_connections_are_closed() {
    let upstream = Upstream::start();
    let gateway = set_up(&[&upstream.url()], |options| {
        options.idle_timeout = Duration::from_millis(50);
    });
    assert_eq!(gateway.connect().get("/").status(), 200);
    until("it is closed", || {
        assert_eq!(gateway.connect().get("/").status(), 200);
        std::thread::park_timeout(Duration::from_millis(200));
        upstream.connections() > 1
    });
}

#[test]
fn upstream_connections_that_were_closed_are_not_reused() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    for round in 1..=5 {
        assert_eq!(client.get("/").status(), 200);
        upstream.cut();
        assert_eq!(upstream.count(), round);
    }
    assert_eq!(upstream.connections(), 5);
}

#[test]
fn slow_uploads_end_and_steady_ones_go_on() {
    let upstream = Upstream::start();
    let gateway = set_up(&[&upstream.url()], |options| {
        options.upload_timeout = Duration::from_millis(1000);
        options.answer_timeout = Duration::from_millis(1000);
        options.upload_min_rate = 1;
    });
    let mut client = gateway.connect();
    client.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc");
    let answer = client.read().unwrap();
    assert_eq!((answer.status(), answer.header("connection")), (408, Some("close")));
    assert!(client.rest().is_some());
    let mut client = gateway.connect();
    client.write("POST /steady HTTP/1.1\r\nhost: a\r\ncontent-length: 12\r\n\r\n");
    for byte in b"0123456789ab" {
        std::thread::park_timeout(Duration::from_millis(100));
        client.write([*byte]);
    }
    assert_eq!(client.read().unwrap().status(), 200, "longer than any pause may be");
}

#[test]
fn a_body_that_stops_halfway_is_cut_off() {
    let upstream = Upstream::answering(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc");
        forever()
    });
    let gateway =
        set_up(&[&upstream.url()], |options| options.pause_timeout = Duration::from_millis(300));
    let mut client = gateway.connect();
    client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_head().unwrap().status(), 200);
    assert_eq!(client.rest().unwrap_or_default(), b"abc");
}

#[test]
fn refusals_reach_clients_that_are_still_sending() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: none, when: 'true', then: deny 403 }]", &upstream);
    let mut client = gateway.connect();
    assert_eq!(client.send("POST", "/", &[], &"x".repeat(10_000)).status(), 403);
    assert_eq!(client.send("POST", "/", &[], "small").status(), 403, "the connection was kept");
    let mut client = gateway.connect();
    client.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000000\r\n\r\n");
    let piece = vec![b'x'; 100_000];
    (0..20).for_each(|_| client.write(&piece));
    assert_eq!(client.read().unwrap().status(), 403);
    assert!(client.rest().is_some(), "no reset");
    assert_eq!(upstream.count(), 0);
}

#[test]
fn who_leaves_while_held_back_sends_nothing() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: slow, limit: 1/h, then: delay up to 2h }]", &upstream);
    assert_eq!(gateway.connect().get("/first").status(), 200);
    let says = |line: &str| gateway.metrics().contains(line);
    let mut leaving = gateway.connect();
    leaving.write("GET /left HTTP/1.1\r\nhost: a\r\n\r\n");
    until("it is held back", || gateway.waiting() == 1);
    drop(leaving);
    until("it is gone", || says("tollgate_connections{door=\"gateway\"} 0"));
    assert_eq!(upstream.count(), 1);
}

fn forever() -> AfterResponse {
    loop {
        std::thread::park();
    }
}
