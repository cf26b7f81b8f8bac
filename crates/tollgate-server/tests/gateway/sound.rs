//! What two servers could read differently goes no further, and what goes further is what was
//! decided on.

use tollgate_rig::Upstream;

use crate::support::{OPEN, start, start_with};

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    for request in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\nY: c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /..%2fadmin HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        "TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
    ] {
        let mut client = gateway.connect();
        client.write(request);
        let answer = client.read().unwrap_or_else(|| panic!("no answer to {request:?}"));
        assert!(matches!(answer.status(), 400 | 405), "{request:?}: {answer:?}");
        assert!(client.rest().is_some_and(|rest| rest.is_empty()), "{request:?}: goes on");
    }
    assert_eq!(upstream.raw().concat(), "", "nothing reached the upstream");
}

#[test]
fn a_request_after_a_sound_one_is_looked_at_too() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    client.write("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    client
        .write("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.read().unwrap().status(), 200);
    assert_eq!(client.read().unwrap().status(), 400);
    assert_eq!(upstream.count(), 1);
    // In chunks, the end of a line is the end of a line.
    let mut client = gateway.connect();
    client.write("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.write("2;x\nabcde\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
    let rest = String::from_utf8(client.rest().unwrap_or_default()).unwrap();
    assert!(!rest.contains("200 OK"), "{rest}");
    assert!(!upstream.raw().concat().contains("smuggled"), "{:?}", upstream.raw());
}

#[test]
fn every_spelling_of_a_path_is_decided_and_sent_on_as_one() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: admin, route: /admin, limit: 3/h }]";
    let gateway = start(rules, &upstream);
    let mut client = gateway.connect();
    let targets = ["/admin", "//admin", "/x/..//%61dmin", "/admin?x", "/\\admin", "/./admin/"];
    let statuses: Vec<_> = targets.iter().map(|target| client.get(target).status()).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    let sent: Vec<_> = upstream.requests().iter().map(|seen| seen.target().to_owned()).collect();
    assert_eq!(sent, ["/admin", "/admin", "/admin"]);
}

#[test]
fn only_trusted_peers_set_the_client_address() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: all, per: ip, limit: 3/h }]";
    let gateway = start(rules, &upstream);
    let mut client = gateway.connect();
    for (headers, status) in [
        (&[][..], 200),
        (&[("X-Forwarded-For", "1.1.1.1"), ("X-Real-IP", "1.1.1.1")], 200),
        (&[("Forwarded", "for=1.1.1.1"), ("Connection", "x-forwarded-for, x-real-ip")], 200),
        (&[("X-Forwarded-For", "2.2.2.2")], 429),
    ] {
        assert_eq!(client.get_with("/", headers).status(), status, "{headers:?}");
    }
    for seen in upstream.requests() {
        assert_eq!(seen.all("x-forwarded-for").collect::<Vec<_>>(), ["127.0.0.1"], "{seen:?}");
        assert_eq!(seen.header("x-real-ip"), Some("127.0.0.1"));
        assert_eq!(seen.header("x-forwarded-proto"), Some("http"));
        assert_eq!(seen.header("x-forwarded-host"), Some("tollgate.test"));
        assert_eq!(seen.header("forwarded"), None);
    }
    // Behind a proxy that the settings or the rules trust, each address is a client of its own.
    let by_rules = format!("trusted_proxies: [127.0.0.0/8]\n{rules}");
    for (rules, own) in [(rules, "127.0.0.0/8"), (&*by_rules, "")] {
        let gateway = start_with(rules, &[&upstream.url()], |config| {
            config.trusted_proxies =
                own.split_whitespace().map(|net| net.parse().unwrap()).collect();
        });
        let mut client = gateway.connect();
        let mut ask = |ip| client.get_with("/", &[("X-Forwarded-For", ip)]).status();
        let statuses = ["9.9.9.9, 1.1.1.1", "1.1.1.1", "8.8.8.8, 1.1.1.1", "1.1.1.1", "2.2.2.2"];
        assert_eq!(statuses.map(&mut ask), [200, 200, 200, 429, 200]);
        assert_eq!(upstream.last().header("x-forwarded-for"), Some("2.2.2.2, 127.0.0.1"));
        assert_eq!(upstream.last().header("x-real-ip"), Some("2.2.2.2"));
    }
}

#[test]
fn rules_see_what_connection_names_and_the_upstream_does_not() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: org, per: 'header[\"x-org\"]', limit: 1/h }]";
    let gateway = start(rules, &upstream);
    let mut client = gateway.connect();
    let headers = [("X-Org", "acme"), ("Connection", "x-org, content-length, host")];
    assert_eq!(client.get_with("/", &headers).status(), 200);
    assert_eq!(client.get_with("/", &headers).status(), 429);
    assert_eq!(upstream.last().header("x-org"), None);
    assert_eq!(upstream.last().header("host"), Some("tollgate.test"));
}
