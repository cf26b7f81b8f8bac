//! `tollgate gateway` in front of a service.

use std::io::Write;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_rig::{AfterResponse, Upstream, WebClient};

use crate::process::{DEADLINE, Server, command};
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

/// Sends a GET request from an address of the loopback network, and returns the status.
fn status_from(source: Ipv4Addr, server: &Server, path: &str) -> u16 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let exchange = async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        let mut stream = socket.connect(server.at("gateway").parse().unwrap()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer[9..12].parse().unwrap()
    };
    runtime.block_on(async { tokio::time::timeout(DEADLINE, exchange).await.unwrap() })
}

/// Returns a folder with the rules that `tollgate init` writes.
fn starter() -> tempfile::TempDir {
    let folder = folder(&[]);
    assert!(command(folder.path(), &["init", "rules.yaml"]).status().unwrap().success());
    folder
}

#[test]
fn the_rules_of_init_count_every_client_behind_a_gateway_by_itself() {
    let upstream = Upstream::start();
    let to = upstream.url();
    let server = Server::gateway(starter(), &["--to", &to, "--rules", "rules.yaml"]);
    // Twelve clients that shared the limit of 10 a minute would see a refusal.
    for _ in 0..2 {
        for client in 2..14 {
            let source = Ipv4Addr::new(127, 0, 0, client);
            assert_eq!(status_from(source, &server, "/api/orders"), 200, "{source}");
        }
    }
    let source = Ipv4Addr::new(127, 0, 0, 2);
    assert!((0..60).any(|_| status_from(source, &server, "/api/orders") == 429));
    let log = server.log();
    assert!(!log.contains("does not supply") && !log.contains("share one counter"), "{log}");
}

#[test]
fn the_rules_of_init_count_every_client_of_the_api_by_itself() {
    let server = Server::start_in(starter(), &["--rules", "rules.yaml"]);
    let check = |client: u8| {
        let ip = format!("ip=192.0.2.{client}");
        server.run(&["check", "GET", "/api/orders", &ip]).0
    };
    for _ in 0..2 {
        for client in 1..13 {
            assert_eq!(check(client), 0, "{client}");
        }
    }
    assert!((0..60).any(|_| check(1) == 1));
    let mut proxy = WebClient::connect(server.at("http").parse().unwrap());
    let mut auth = |client: u8| {
        let from = format!("198.51.103.{client}");
        let headers = [("x-forwarded-uri", "/api/orders"), ("x-forwarded-for", &*from)];
        proxy.get_with("/v1/auth", &headers).status()
    };
    for client in (1..13).chain(1..13) {
        assert_eq!(auth(client), 200, "{client}");
    }
    assert!((0..60).any(|_| auth(1) == 429));
}

#[test]
fn a_gateway_warns_about_attributes_that_it_cannot_supply() {
    let upstream = Upstream::start();
    let rules = "attributes: [org]\nrules: [{ name: api, per: org, limit: 3/h }]";
    let to = upstream.url();
    let folder = folder(&[("rules.yaml", rules)]);
    let server = Server::gateway(folder, &["--to", &to, "--rules", "rules.yaml"]);
    server.wait_for_log("the door gateway does not supply `org`, which `per` of \"api\" reads");
    assert_eq!(through(&server).get("/").status(), 200);
    server.wait_for_log("requests lack an attribute that the rule counts by");
    // New rules that read another one are reported as well.
    let more = rules.replace("org", "team");
    std::fs::write(server.path("rules.yaml"), more).unwrap();
    server.signal("-HUP");
    server.wait_for_log("the door gateway does not supply `team`");
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
