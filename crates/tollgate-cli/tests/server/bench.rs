//! `tollgate bench` against every door.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Server, command};

fn bench(server: &Server, door: &str, more: &[&str]) -> Value {
    let to = server.at(door).to_owned();
    let args = [&["bench", "--json", "--door", door, "--to", &to], more].concat();
    let output = command(server.folder.path(), &args).output().unwrap();
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), &*trouble), (Some(0), ""), "{message}");
    serde_json::from_str(&message).unwrap()
}

#[test]
fn every_door_is_measured_and_every_request_counted() {
    let server = Server::start(&[]);
    for door in ["http", "resp", "grpc"] {
        let report = bench(&server, door, &["--requests", "2001", "--connections", "4"]);
        assert_eq!(report["decisions"], 2001, "{report}");
        assert_eq!(report["errors"], 0, "{report}");
        assert_eq!(report["allowed"].as_u64().unwrap() + report["denied"].as_u64().unwrap(), 2001);
        let latency = |name: &str| report["latency_ns"][name].as_u64().unwrap();
        assert!(latency("p50") > 0 && latency("p50") <= latency("p99"), "{report}");
        assert!(latency("p99") <= latency("max"), "{report}");
        assert!(report["server_cpu_ns_per_decision"].is_u64(), "found by its port: {report}");
        assert!(report["decisions_per_second"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn denied_requests_are_counted_separately() {
    let server = Server::start(&["--grpc", "off"]);
    let few = ["--requests", "500", "--connections", "5", "--keys", "10", "--limit", "7/h"];
    for door in ["http", "resp"] {
        let report = bench(&server, door, &few);
        // Both doors use one key and one limit, so nothing is left for the second.
        let allowed = if door == "http" { 70 } else { 0 };
        assert_eq!(report["allowed"], allowed, "{report}");
        assert_eq!(report["denied"], 500 - allowed, "{report}");
    }
    let rules = ["--requests", "300", "--connections", "3", "--keys", "2", "--domain", "demo"];
    let rules = [&rules[..], &["ip={ip}", "route=POST /login"]].concat();
    for (door, allowed) in [("resp", 10), ("http", 0)] {
        let report = bench(&server, door, &rules);
        assert_eq!(report["allowed"], allowed, "{report}");
    }
}

#[test]
fn requests_are_sent_at_the_given_rate() {
    let server = Server::start(&["--grpc", "off"]);
    let more = ["--rate", "1000", "--duration", "1s", "--connections", "10"];
    let report = bench(&server, "resp", &more);
    assert_eq!((&report["decisions"], &report["pipeline"]), (&1000.into(), &1.into()), "{report}");
}

/// Half a second without a response delays all requests that are scheduled in it, not only the one in
/// flight.
#[test]
fn a_stalled_server_shows_in_the_latency() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let (mut piece, mut answered) = ([0; 4096], 0);
        while stream.read(&mut piece).is_ok_and(|length| length > 0) {
            answered += 1;
            if answered == 20 {
                std::thread::park_timeout(Duration::from_millis(500));
            }
            stream.write_all(b"*2\r\n$7\r\nallowed\r\n:1\r\n").unwrap();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let args = ["bench", "--json", "--door", "resp", "--to", &to, "--connections", "1"];
    let args = [&args[..], &["--rate", "100", "--duration", "1s"]].concat();
    let output = command(folder.path(), &args).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    server.join().unwrap();
    assert_eq!(report["decisions"], 100, "{report}");
    let p90 = report["latency_ns"]["p90"].as_u64().unwrap();
    assert!(p90 > 200_000_000, "{report}");
}

#[test]
fn invalid_benchmarks_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["--to", "127.0.0.1:1"][..], "cannot connect to 127.0.0.1:1"),
        (&["--pipeline", "2"], "use more --connections"),
        (&["--door", "grpc", "--limit", "1/s"], "the gRPC door has no inline limits"),
        (&["--keys", "1G"], "at most 3796416 keys"),
    ] {
        let args = [&["bench"], args].concat();
        let output = command(folder.path(), &args).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(expected), "{message}");
    }
}
