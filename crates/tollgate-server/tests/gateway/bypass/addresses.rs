//! The client's address: the peer, unless it is a trusted proxy.

use std::net::SocketAddr;

use tollgate_rig::{Upstream, WebClient};
use tollgate_server::net::Bind;

use super::{Fields, passed};
use crate::support::{Gateway, start, start_with};

/// Three requests for each address.
const PER_IP: &str = "rules: [{ name: r, per: ip, limit: 3/h fixed first_hit }]";
const TRUSTING: &str = "trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]\nrules: [{ name: r, per: ip, limit: 3/h fixed first_hit }]";

const FORGED: &[Fields<'static>] = &[
    &[],
    &[("X-Forwarded-For", "198.51.100.1")],
    &[("X-Forwarded-For", "198.51.100.2"), ("X-Forwarded-For", "198.51.100.3")],
    &[("x-forwarded-for", "127.0.0.1, 198.51.100.4")],
    &[("Forwarded", "for=198.51.100.5;proto=https")],
    &[("X-Real-IP", "198.51.100.6")],
    &[("True-Client-IP", "198.51.100.7"), ("CF-Connecting-IP", "198.51.100.7")],
    &[("X-Client-IP", "198.51.100.8"), ("X-Cluster-Client-IP", "198.51.100.8")],
    &[("Connection", "X-Forwarded-For"), ("X-Forwarded-For", "198.51.100.9")],
    &[("Connection", "close, X-Real-IP"), ("X-Real-IP", "198.51.100.10")],
    &[("X_Forwarded_For", "198.51.100.11")],
    &[("X-Forwarded-For", "::ffff:198.51.100.12")],
    &[("X-Forwarded-For", "unknown"), ("Via", "1.1 proxy")],
    &[("X-Forwarded-For", "")],
];

#[test]
fn forged_addresses_are_not_believed() {
    let upstream = Upstream::start();
    let gateway = start(PER_IP, &upstream);
    let requests: Vec<_> = FORGED.iter().map(|fields| ("GET", "/", *fields)).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), 3);
}

#[test]
fn headers_of_untrusted_peers_are_not_forwarded() {
    let upstream = Upstream::start();
    let gateway = start(crate::support::OPEN, &upstream);
    for fields in FORGED {
        assert_eq!(gateway.connect().send("GET", "/", fields, "").status(), 200);
        let seen = upstream.last();
        let forwarded: Vec<_> = seen.all("x-forwarded-for").collect();
        assert_eq!(forwarded, ["127.0.0.1"], "{fields:?}: {seen:?}");
        let real: Vec<_> = seen.all("x-real-ip").collect();
        assert!(real.is_empty() || real == ["127.0.0.1"], "{fields:?}: {seen:?}");
        let standard: Vec<_> = seen.all("forwarded").collect();
        assert!(standard.iter().all(|text| !text.contains("198.51.100")), "{seen:?}");
    }
}

#[test]
fn a_trusted_proxy_is_believed_as_far_as_it_goes() {
    let upstream = Upstream::start();
    let gateway = start(TRUSTING, &upstream);
    // All of them are 198.51.100.1: what stands left of it was written by the client.
    let chains = [
        "198.51.100.1",
        "198.51.100.1, 10.0.0.1",
        "203.0.113.9, 198.51.100.1, 10.0.0.1, 127.0.0.9",
        "127.0.0.1, 198.51.100.1",
        "10.9.9.9, 203.0.113.1, 198.51.100.1",
        " 198.51.100.1 ",
        "198.51.100.1:4711",
        "::ffff:198.51.100.1",
        "[::ffff:198.51.100.1]:80",
        "nonsense, 198.51.100.1",
    ];
    let fields: Vec<_> = chains.iter().map(|chain| [("X-Forwarded-For", *chain)]).collect();
    let mut requests: Vec<_> = fields.iter().map(|fields| ("GET", "/", &fields[..])).collect();
    let twice = [("X-Forwarded-For", "203.0.113.5"), ("X-Forwarded-For", "198.51.100.1")];
    let named = [("Connection", "X-Forwarded-For"), ("X-Forwarded-For", "198.51.100.1")];
    requests.extend([("GET", "/", &twice[..]), ("GET", "/", &named[..])]);
    assert_eq!(passed(&gateway, &upstream, &requests), 3);
    for seen in upstream.requests() {
        let chain = seen.all("x-forwarded-for").collect::<Vec<_>>().join(", ");
        assert!(
            chain.ends_with("127.0.0.1"),
            "the upstream sees who came to the gateway: {seen:?}"
        );
    }
    let other = [("X-Forwarded-For", "198.51.100.2")];
    assert_eq!(passed(&gateway, &upstream, &[("GET", "/", &other)]), 1, "others are others");
}

#[test]
fn a_network_of_ipv6_is_one_caller() {
    let upstream = Upstream::start();
    let gateway = start(TRUSTING, &upstream);
    let spellings = [
        "2001:db8::1",
        "2001:DB8::1",
        "2001:0db8:0000:0000:0000:0000:0000:0001",
        "[2001:db8::1]",
        "[2001:db8::1]:443",
        "2001:db8:0:0::2",
        "2001:db8::ffff:ffff:ffff:ffff",
        "2001:db8::192.0.2.1",
        "2001:db8:0:0:dead:beef::",
    ];
    let mut fields: Vec<_> = spellings.iter().map(|text| text.to_string()).collect();
    // Another address of the same network for every request.
    fields.extend((0..30).map(|n| format!("2001:db8::{:x}:{n:x}", n * 2003)));
    let fields: Vec<_> = fields.iter().map(|text| [("X-Forwarded-For", text.as_str())]).collect();
    let requests: Vec<_> = fields.iter().map(|fields| ("GET", "/", &fields[..])).collect();
    assert_eq!(passed(&gateway, &upstream, &requests), 3);
    let neighbour = [("X-Forwarded-For", "2001:db8:0:1::1")];
    assert_eq!(passed(&gateway, &upstream, &[("GET", "/", &neighbour)]), 1);
}

#[test]
fn ipv4_in_ipv6_is_ipv4() {
    let upstream = Upstream::start();
    let any = |text: &str| Bind::plain(text.parse().unwrap());
    let gateway: Gateway = start_with(PER_IP, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().listen = any("[::]:0");
    });
    let port = gateway.address().port();
    let ways: [SocketAddr; 2] =
        [([127, 0, 0, 1], port).into(), (std::net::Ipv6Addr::LOCALHOST, port).into()];
    // By the first way it is the same caller, however often; by the second it is another.
    let status = |way: SocketAddr| WebClient::connect(way).get("/").status();
    let by_first: Vec<_> = (0..4).map(|_| status(ways[0])).collect();
    assert_eq!(by_first, [200, 200, 200, 429]);
    assert_eq!(status(ways[1]), 200);
    let forwarded = upstream.requests()[0].header("x-forwarded-for").map(str::to_owned);
    assert_eq!(forwarded.as_deref(), Some("127.0.0.1"));
}
