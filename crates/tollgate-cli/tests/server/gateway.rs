//! `tollgate gateway` in front of a service.

use std::io::Write;

use tollgate_rig::{AfterResponse, Upstream, WebClient};

use crate::process::{Server, command};
use crate::support::folder;

fn through(server: &Server) -> WebClient {
    WebClient::connect(server.at("gateway").parse().unwrap())
}

#[test]
fn a_gateway_limits_a_service_without_changing_it() {
    let upstream = Upstream::start();
    let rules = ("rules.yaml", "rules: [{ name: login, route: POST /login, limit: 2/h }]");
    let server =
        Server::gateway(folder(&[rules]), &["--to", &upstream.url(), "--rules", "rules.yaml"]);
    assert!(
        server.start_output["grpc"].is_null() && server.start_output["resp"].is_null(),
        "{}",
        server.start_output
    );
    let mut client = through(&server);
    let login = |client: &mut WebClient| client.send("POST", "/login", &[], "x").status();
    assert_eq!([(); 3].map(|()| login(&mut client)), [200, 200, 429]);
    assert_eq!(client.get("/").status(), 200);
    assert_eq!(upstream.count(), 3);
    assert_eq!(server.status("/readyz"), 200);
}

#[test]
fn a_server_may_be_a_gateway_too_and_counts_once() {
    let upstream = Upstream::start();
    let rules = ("rules.yaml", "domain: shop\nrules: [{ name: all, limit: 2/h }]");
    let more = ["--rules", "rules.yaml", "--to", &upstream.url(), "--listen", "127.0.0.1:0"];
    let server = Server::start_in(folder(&[rules]), &more);
    assert_eq!(through(&server).get("/").status(), 200);
    assert_eq!(server.run(&["check", "shop"]).0, 0);
    assert_eq!(server.run(&["check", "shop"]).0, 1);
    assert_eq!(through(&server).get("/").status(), 429);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn a_stricter_limit_of_the_upstream_is_told_to_clients() {
    let upstream = Upstream::answering(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nretry-after: 9\r\n\
                    ratelimit-policy: \"up\";q=5;w=60\r\nratelimit: \"up\";r=1;t=30\r\n\
                    x-ratelimit-limit: 5\r\nx-ratelimit-remaining: 1\r\nx-ratelimit-reset: 30\r\n\r\n";
        match stream.write_all(head.as_bytes()) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    });
    let rules = ("rules.yaml", "rules: [{ name: all, limit: 10k tokens/h fixed first_hit }]");
    let start = |style: &str, rules: (&str, &str)| {
        let to = ["--to", &upstream.url(), "--rules", "rules.yaml", "--headers", style];
        Server::gateway(folder(&[rules]), &to)
    };
    let server = start("draft-10", rules);
    let reply = through(&server).get("/");
    let all = |name| reply.all(name).collect::<Vec<_>>();
    let policies = [r#""up";q=5;w=60"#, r#""all";q=10000;qu="tokens";w=3600"#];
    assert_eq!(all("ratelimit-policy"), policies);
    assert_eq!(all("ratelimit"), [r#""up";r=1;t=30"#, r#""all";r=9999;t=3600"#]);
    assert_eq!(all("retry-after"), ["9"]);
    for (limit, remaining) in [("3/h fixed first_hit", "1"), ("1/h fixed first_hit", "0")] {
        let text = format!("rules: [{{ name: all, limit: {limit} }}]");
        let server = start("legacy", ("rules.yaml", &text));
        let reply = through(&server).get("/");
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(remaining), "{limit}");
        let is_theirs = reply.header("x-ratelimit-reset") == Some("30");
        assert_eq!(is_theirs, remaining == "1", "{limit}");
    }
}

#[test]
fn errors_of_the_gateway_explain_what_to_write() {
    for (args, expected) in [
        (&["gateway"][..], "the gateway has no upstream: give one, such as --to localhost:3000"),
        (&["gateway", "--to", "localhost:port"], "write host:port, http://"),
        (&["gateway", "--to", "ftp://localhost"], "write host:port, http://"),
        (&["serve", "--check", "--listen", "127.0.0.1:1"], "--to"),
    ] {
        let output = command(folder(&[]).path(), args).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}
