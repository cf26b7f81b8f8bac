//! Many idle connections do not keep out an active one.

use std::net::TcpStream;

use super::client::HttpClient;
use crate::support::start_with;

const RULES: &str = "rules: [{ name: all, limit: 1000000/s }]";
/// The number of file descriptors that the test leaves free.
const RESERVE: usize = 400;

/// Returns the limit of open files; both ends of every connection count.
fn files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().unwrap()
}

#[test]
fn an_active_connection_is_accepted_beside_thousands_of_idle_ones() {
    // Starting a server raises the limit of open files as far as possible.
    let server = start_with(RULES, |_| {});
    let count = ((files() - RESERVE) / 2).min(10_000);
    let idle: Vec<_> = (0..count).map(|_| TcpStream::connect(server.http()).unwrap()).collect();
    let mut honest = HttpClient::connect(server.http());
    for _ in 0..100 {
        assert_eq!(honest.post("/v1/check", "{}").status, 200);
    }
    drop(idle);
}

#[test]
fn at_the_cap_idle_connections_are_closed() {
    let server = start_with(RULES, |config| config.bounds.connections = Some(50));
    let mut talking = HttpClient::connect(server.http());
    assert_eq!(talking.post("/v1/check", "{}").status, 200);
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(TcpStream::connect(server.http()).unwrap());
        let mut honest = HttpClient::connect(server.http());
        assert_eq!(honest.post("/v1/check", "{}").status, 200);
        assert_eq!(talking.post("/v1/check", "{}").status, 200);
    }
}
