//! Many connections that say nothing do not keep out one that does.

use std::net::TcpStream;

use super::client::Client;
use crate::support::start_with;

const RULES: &str = "rules: [{ name: all, limit: 1000000/s }]";
/// What the test leaves for itself and the server of the files a process may have.
const RESERVE: usize = 400;

/// Files this process may have open: both ends of every connection are in it.
fn files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().unwrap()
}

#[test]
fn an_honest_connection_finds_a_place_among_thousands_of_idle_ones() {
    // The first server raises the bound of this process as far as it goes.
    let server = start_with(RULES, |_| {});
    let crowd = ((files() - RESERVE) / 2).min(10_000);
    let idle: Vec<_> = (0..crowd).map(|_| TcpStream::connect(server.http()).unwrap()).collect();
    let mut honest = Client::connect(server.http());
    for _ in 0..100 {
        assert_eq!(honest.post("/v1/check", "{}").status, 200);
    }
    drop(idle);
}

#[test]
fn when_places_run_out_the_silent_leave() {
    let server = start_with(RULES, |config| config.bounds.connections = Some(50));
    let mut talking = Client::connect(server.http());
    assert_eq!(talking.post("/v1/check", "{}").status, 200);
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(TcpStream::connect(server.http()).unwrap());
        let mut honest = Client::connect(server.http());
        assert_eq!(honest.post("/v1/check", "{}").status, 200);
        assert_eq!(talking.post("/v1/check", "{}").status, 200);
    }
}
