//! `count`: only what came of a request counts.

use std::io::Write;

use tollgate_rig::{AfterResponse, Upstream, until};

use crate::support::start;

/// Answers with the status that the path says.
fn told() -> Upstream {
    Upstream::answering(|request, stream| {
        let status = request.target().trim_start_matches('/').to_owned();
        let answer =
            format!("HTTP/1.1 {status} Told\r\nContent-Length: 4\r\nX-Kind: {status}\r\n\r\nbody");
        match stream.write_all(answer.as_bytes()) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    })
}

#[test]
fn only_failures_count() {
    let upstream = told();
    let rules = "rules: [{ name: login, per: ip, limit: 2/h fixed first_hit, count: response.status == 401 }]";
    let gateway = start(rules, &upstream);
    let mut client = gateway.connect();
    let statuses: Vec<_> = ["/200", "/401", "/200", "/500", "/401", "/200"]
        .into_iter()
        .map(|target| client.get(target).status())
        .collect();
    assert_eq!(statuses, [200, 401, 200, 500, 401, 429]);
    assert_eq!(upstream.count(), 5);
}

#[test]
fn what_never_came_of_a_request_does_not_count() {
    let rules = "rules: [{ name: login, per: ip, limit: 1/h fixed first_hit, count: response.status == 401 }]";
    let upstream = Upstream::answering(|request, stream| match request.target() {
        "/dies" => AfterResponse::Close,
        _ => {
            let _ = stream.write_all(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n");
            AfterResponse::Keep
        }
    });
    let gateway = start(rules, &upstream);
    for _ in 0..3 {
        assert_eq!(gateway.connect().get("/dies").status(), 502);
    }
    assert_eq!(gateway.connect().get("/wrong").status(), 401);
    until("the failure counts", || gateway.connect().get("/wrong").status() == 429);
}
