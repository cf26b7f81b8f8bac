//! Heads: many fields, `Via`, loops, and lengths in one spelling.

use std::io::Write;
use std::net::SocketAddr;

use tollgate_rig::{AfterResponse, Upstream, WebClient};
use tollgate_server::config::ViaName;

use crate::support::{OPEN, start, start_with};

fn many(count: usize) -> String {
    (0..count).map(|number| format!("X-F{number}: {number}\r\n")).collect()
}

/// An upstream that answers with as many header fields as the path says.
fn verbose() -> Upstream {
    Upstream::answering(|request, stream| {
        let count = request.target().trim_start_matches('/').parse().unwrap_or(0);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{}\r\n", many(count));
        match stream.write_all(head.as_bytes()) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    })
}

fn status(address: SocketAddr, sent: usize, answered: usize) -> u16 {
    let mut client = WebClient::connect(address);
    client.write(format!("GET /{answered} HTTP/1.1\r\nHost: a\r\n{}\r\n", many(sent)));
    client.read().unwrap().status()
}

#[test]
fn more_than_a_hundred_header_fields_pass_in_both_directions() {
    let upstream = verbose();
    let gateway = start(OPEN, &upstream);
    assert_eq!(status(gateway.address(), 200, 200), 200);
    let seen = upstream.last();
    assert_eq!((seen.header("x-f0"), seen.header("x-f199")), (Some("0"), Some("199")));
    assert_eq!(status(gateway.address(), 300, 0), 431, "the default is 256");
    assert_eq!(status(gateway.address(), 0, 300), 502);
    let wide = start_with(OPEN, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().header_fields = 1_000;
    });
    assert_eq!(status(wide.address(), 900, 900), 200);
}

#[test]
fn the_size_of_a_head_is_bounded_in_both_directions() {
    let upstream = verbose();
    let small = start_with(OPEN, &[&upstream.url()], |config| {
        let options = config.gateway.as_mut().unwrap();
        (options.header_fields, options.head_bytes) = (10_000, 8 << 10);
    });
    assert_eq!(status(small.address(), 100, 100), 200);
    assert_eq!(status(small.address(), 1_000, 0), 431);
    assert_eq!(status(small.address(), 0, 1_000), 502);
    let large = start_with(OPEN, &[&upstream.url()], |config| {
        let options = config.gateway.as_mut().unwrap();
        (options.header_fields, options.head_bytes) = (10_000, 512 << 10);
    });
    assert_eq!(status(large.address(), 9_000, 9_000), 200);
}

#[test]
fn via_names_the_gateway_to_both_sides() {
    let upstream = Upstream::answering(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nVia: 1.1 cache\r\nContent-Length: 0\r\n\r\n");
        AfterResponse::Keep
    });
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().via = ViaName::Fixed("edge".into());
    });
    let answer = gateway.connect().get_with("/", &[("Via", "1.0 fred")]);
    assert_eq!(answer.all("via").collect::<Vec<_>>(), ["1.1 cache, 1.1 edge"]);
    assert_eq!(upstream.last().all("via").collect::<Vec<_>>(), ["1.0 fred, 1.1 edge"]);
    let off = start_with(OPEN, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().via = ViaName::Off;
    });
    assert_eq!(off.connect().get("/").header("via"), Some("1.1 cache"));
    assert_eq!(upstream.last().header("via"), None);
}

#[test]
fn a_loop_ends_at_its_first_turn() {
    // An upstream that sends requests back to the gateway, with their Via.
    let gateway_address = std::sync::Arc::new(std::sync::OnceLock::<SocketAddr>::new());
    let address = gateway_address.clone();
    let upstream = Upstream::answering(move |request, stream| {
        let via = request.header("via").unwrap_or_default();
        let answer = WebClient::connect(*address.get().unwrap()).get_with("/", &[("Via", via)]);
        let head = format!("HTTP/1.1 {} Status\r\nContent-Length: 0\r\n\r\n", answer.status());
        let _ = stream.write_all(head.as_bytes());
        AfterResponse::Close
    });
    let gateway = start(OPEN, &upstream);
    gateway_address.set(gateway.address()).unwrap();
    assert_eq!(gateway.connect().get("/").status(), 508);
    assert_eq!(upstream.count(), 1);
    let before = start_with(OPEN, &[&format!("http://{}", gateway.address())], |_| {});
    assert_eq!(before.connect().get("/").status(), 508, "two gateways in a row are no loop");
    assert_eq!(upstream.count(), 2, "the request came through both");
}

#[test]
fn lengths_have_one_spelling() {
    let upstream = Upstream::answering(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 004\r\n\r\nfine");
        AfterResponse::Keep
    });
    let gateway = start(OPEN, &upstream);
    for length in ["010", "00", "08"] {
        let mut client = gateway.connect();
        client.write(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n0123456789"
        ));
        let answer = client.read().unwrap();
        assert_eq!(answer.status(), 400, "{length}");
        assert!(answer.text().contains("begins with a zero"), "{answer:?}");
    }
    assert_eq!(upstream.count(), 0);
    let answer = gateway.connect().send("POST", "/", &[], "");
    assert_eq!((answer.status(), answer.header("content-length")), (200, Some("4")));
    assert_eq!(answer.text(), "fine");
}
