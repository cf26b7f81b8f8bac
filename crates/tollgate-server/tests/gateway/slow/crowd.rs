//! Ten thousand connections that say nothing, or nothing more.

use std::io::{Read, Write};
use std::net::TcpStream;

use tollgate_rig::Upstream;

use super::Honest;
use crate::clients::large::memory;
use crate::support::{OPEN, start_with};

/// What the test leaves for itself and the gateway of the files a process may have.
const RESERVE: usize = 400;
/// Memory that a connection may take, in bytes, in a build that is not made to be small.
const MOST_EACH: usize = 48 << 10;

/// Files this process may have open: both ends of every connection are in it.
fn files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().unwrap()
}

#[test]
fn many_idle_connections_cost_little() {
    let upstream = Upstream::start();
    let gateway = start_with(OPEN, &[&upstream.url()], |_| {});
    let crowd = ((files() - RESERVE) / 2).min(10_000);
    let mut honest = Honest::of(&gateway);
    (0..200).for_each(|_| honest.ask());
    let alone = honest.figures();
    let before = memory("VmRSS:");
    let silent: Vec<_> =
        (0..crowd / 2).map(|_| TcpStream::connect(gateway.address()).unwrap()).collect();
    tollgate_rig::until("all are in", || gateway.connections() > crowd / 2);
    let each_silent = memory("VmRSS:").saturating_sub(before) / silent.len();
    let before = memory("VmRSS:");
    let talked: Vec<_> = (silent.len()..crowd)
        .map(|_| {
            let mut stream = TcpStream::connect(gateway.address()).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: stub\r\n\r\n").unwrap();
            let mut answer = [0; 1000];
            let length = stream.read(&mut answer).unwrap();
            assert!(answer[..length].starts_with(b"HTTP/1.1 200"));
            stream
        })
        .collect();
    let each_talked = memory("VmRSS:").saturating_sub(before) / talked.len();
    let mut honest = Honest::of(&gateway);
    (0..1000).for_each(|_| honest.ask());
    let among = honest.figures();
    println!(
        "{crowd} idle connections: {each_silent} bytes each before a request, {each_talked} after one"
    );
    println!(
        "honest requests: p50 {:.2} ms, p99 {:.2} ms; alone {:.2} and {:.2}",
        among.0, among.1, alone.0, alone.1
    );
    assert!(each_silent < MOST_EACH && each_talked < MOST_EACH, "{each_silent} {each_talked}");
    assert!(upstream.connections() <= 8, "idle clients hold no lanes: {}", upstream.connections());
}
