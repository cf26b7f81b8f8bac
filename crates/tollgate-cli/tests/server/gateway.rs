//! `tollgate gateway`: in front of a service, from the command line.

use tollgate_rig::{Upstream, WebClient};

use crate::process::{Server, command};
use crate::support::folder;

fn through(server: &Server) -> WebClient {
    WebClient::connect(server.at("gateway").parse().unwrap())
}

#[test]
fn a_service_is_protected_without_touching_it() {
    let upstream = Upstream::start();
    let rules = ("rules.yaml", "rules: [{ name: login, route: POST /login, limit: 2/h }]");
    let server =
        Server::gateway(folder(&[rules]), &["--to", &upstream.url(), "--rules", "rules.yaml"]);
    assert!(server.said["grpc"].is_null() && server.said["resp"].is_null(), "{}", server.said);
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
    assert_eq!(server.ask(&["check", "shop"]).0, 0);
    assert_eq!(server.ask(&["check", "shop"]).0, 1);
    assert_eq!(through(&server).get("/").status(), 429);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn what_is_wrong_is_told_with_what_to_write() {
    for (args, expected) in [
        (&["gateway"][..], "where to? give --to http://localhost:3000"),
        (&["gateway", "--to", "localhost:3000"], "write http://"),
        (&["gateway", "--to", "ftp://localhost"], "write http://"),
        (&["serve", "--check", "--listen", "127.0.0.1:1"], "--to"),
    ] {
        let output = command(folder(&[]).path(), args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
