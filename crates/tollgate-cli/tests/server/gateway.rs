//! `tollgate gateway` in front of a service.

use tollgate_rig::{Upstream, WebClient};

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
