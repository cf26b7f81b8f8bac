//! Counters that survive the process: kills, stops, damaged files, full and slow disks, edited rules.
#![allow(clippy::disallowed_methods, reason = "measures real servers, within a deadline")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Server, command, until};

/// A limit that refills too slowly to matter.
const LIMIT: &str = "100000/365d";

const KILLS: usize = 50;

/// Starts a server with a data folder that outlives it.
fn start(data: &Path, more: &[&str]) -> Server {
    start_in(tempfile::tempdir().unwrap(), data, more)
}

fn start_in(folder: TempDir, data: &Path, more: &[&str]) -> Server {
    let own = ["--grpc", "off", "--resp", "off", "--drain-notice", "0", "--data"];
    let args: Vec<&str> =
        own.into_iter().chain(data.to_str()).chain(more.iter().copied()).collect();
    Server::start_in(folder, &args)
}

/// Returns the status and the body of a call; none if the server does not answer it.
fn try_call(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    let head = "Host: a\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head[9..12].parse().ok()?, body.to_owned()))
}

fn call(server: &Server, method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = try_call(server.at("http"), method, path, body);
    answer.unwrap_or_else(|| panic!("no answer to {method} {path}:\n{}", server.log()))
}

fn post(server: &Server, path: &str, body: &Value) -> Value {
    let (status, answer) = call(server, "POST", path, &body.to_string());
    assert!(status < 300, "{path}: {status} {answer}");
    serde_json::from_str(&answer).unwrap()
}

fn admit(server: &Server, key: &str, cost: u64) {
    let decision = post(server, "/v1/limit", &json!({"key": key, "limit": LIMIT, "cost": cost}));
    assert_eq!(decision["allowed"], true, "{decision}");
}

/// Returns how much of a key is used.
fn used(server: &Server, key: &str) -> u64 {
    let peeked = post(server, "/v1/peek", &json!({"key": key, "limit": LIMIT}));
    100_000 - peeked["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{peeked}"))
}

fn metric(server: &Server, name: &str) -> f64 {
    let (_, text) = call(server, "GET", "/metrics", "");
    let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name}"))
}

/// Waits until a snapshot has everything that was charged up to now.
fn wait_until_saved(server: &Server) {
    let charged = Instant::now();
    until("snapshot", || {
        let asked = charged.elapsed();
        metric(server, "tollgate_snapshot_age_seconds") < asked.as_secs_f64()
    });
}

fn kill(mut server: Server) {
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}

/// Takes one after the other until the server does not answer; returns how many it may have charged.
fn load(address: String) -> impl FnOnce() -> u64 + Send {
    let body = json!({"key": "ann", "limit": LIMIT, "cost": 1}).to_string();
    // The last call may have been charged too.
    move || {
        let calls = (1..10_000).take_while(|_| {
            try_call(&address, "POST", "/v1/limit", &body).is_some_and(|(status, _)| status == 200)
        });
        calls.last().unwrap_or(0) + 1
    }
}

#[test]
fn a_kill_loses_only_what_the_last_snapshot_does_not_have() {
    let data = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(15);
    // What is used at least and at most.
    let (mut least, mut most) = (0, 0);
    for life in 0..KILLS {
        let server = start(data.path(), &["--snapshot", "50ms"]);
        let restored = used(&server, "ann");
        assert!((least..=most).contains(&restored), "{life}: {least} <= {restored} <= {most}");
        most = restored;
        for _ in 0..random.u64(1..20) {
            admit(&server, "ann", 1);
            most += 1;
        }
        wait_until_saved(&server);
        least = most;
        let load = std::thread::spawn(load(server.at("http").to_owned()));
        std::thread::park_timeout(Duration::from_millis(random.u64(0..100)));
        kill(server);
        most += load.join().unwrap();
        let left = std::fs::read_dir(data.path()).unwrap().flatten();
        let left = left.filter(|file| file.file_name().to_string_lossy().ends_with(".tmp")).count();
        assert!(left <= 1, "{left} temporary files: those of earlier lives are removed");
    }
    println!("kills {KILLS}, used at least {least}, at most {most}");
    assert!(least as usize > 2 * KILLS);
}

#[test]
fn a_stop_saves_everything() {
    let data = tempfile::tempdir().unwrap();
    let mut server = start(data.path(), &["--snapshot", "1h"]);
    admit(&server, "ann", 7);
    server.signal("-TERM");
    assert!(server.wait().success());
    let server = start(data.path(), &["--snapshot", "1h"]);
    assert_eq!(used(&server, "ann"), 7);
    assert!(server.log().contains("restored counters from the snapshot"), "{}", server.log());
    drop(server);
    let server = start(data.path(), &["--snapshot", "off"]);
    assert_eq!(used(&server, "ann"), 0);
}

#[test]
fn a_damaged_snapshot_is_moved_aside() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("snapshot");
    let mut server = start(data.path(), &[]);
    admit(&server, "ann", 7);
    server.signal("-TERM");
    server.wait();
    let good = std::fs::read(&file).unwrap();
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    let mut newer = good.clone();
    newer[8] = 200;
    let cut = good[..good.len() - 3].to_vec();
    for (bytes, reason) in [
        (changed, "the checksum of a block is wrong"),
        (cut, "it ends too early"),
        (Vec::new(), "it ends too early"),
        (newer, "has format 200"),
    ] {
        std::fs::write(&file, &bytes).unwrap();
        let server = start(data.path(), &["--snapshot", "1h"]);
        let log = server.log();
        assert!(log.contains(reason) && log.contains("snapshot.corrupt-1"), "{reason}: {log}");
        assert_eq!(std::fs::read(data.path().join("snapshot.corrupt-1")).unwrap(), bytes);
        assert_eq!(used(&server, "ann"), 0);
        admit(&server, "ann", 1);
        kill(server);
    }
    std::fs::write(&file, &good).unwrap();
    assert_eq!(used(&start(data.path(), &[]), "ann"), 7);
}

#[test]
fn reservations_and_bans_of_ladders_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "
domain: shop
attributes: [job, user]
rules:
  - { name: login, route: POST /login, per: ip, limit: 2/h, then: 'ban [10min, 1h] after 2 denials in 1min' }
  - { name: tokens, route: POST /tokens, per: user, limit: 1000/365d }
  - { name: jobs, route: POST /jobs, per: job, limit: 1 concurrent lease 1h }
";
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, rules).unwrap();
    let data = tempfile::tempdir().unwrap();
    let more = ["--snapshot", "50ms", "--rules", file.to_str().unwrap()];
    let server = start(data.path(), &more);
    let login = ["check", "shop", "route=POST /login", "ip=192.0.2.1"];
    assert_eq!([(); 5].map(|()| server.run(&login).0), [0, 0, 1, 1, 1]);
    let reserve = |server: &Server, attributes: Value, amount: u64| {
        let body = json!({"domain": "shop", "attributes": attributes, "amount": amount});
        post(server, "/v1/reserve", &body)
    };
    let job = || json!({"route": "POST /jobs", "job": "import"});
    let id = |reserved: &Value| {
        assert_eq!(reserved["allowed"], true, "{reserved}");
        reserved["id"].as_str().unwrap_or_else(|| panic!("{reserved}")).to_owned()
    };
    let tokens = id(&reserve(&server, json!({"route": "POST /tokens", "user": "ann"}), 400));
    let permit = id(&reserve(&server, job(), 1));
    let body = json!({"key": "bob", "limit": LIMIT, "amount": 500});
    let inline = id(&post(&server, "/v1/reserve", &body));
    wait_until_saved(&server);
    kill(server);

    let server = start(data.path(), &more);
    assert_eq!(server.run(&login).0, 1);
    let mut list = command(server.folder.path(), &["ban", "list"]);
    list.env("TOLLGATE_SERVER", server.http()).env("STATE_DIRECTORY", data.path());
    let listed = String::from_utf8(list.output().unwrap().stdout).unwrap();
    assert!(listed.contains("192.0.2.1") && listed.contains("its ladder, rung 1"), "{listed}");
    assert_eq!(reserve(&server, job(), 1)["allowed"], false, "still taken");
    let settle = |id: &str, spent: u64| {
        post(&server, &format!("/v1/reservations/{id}/settle"), &json!({"amount": spent}))
    };
    let settled = settle(&tokens, 100);
    assert_eq!(settled["limits"][0]["remaining"], 900, "{settled}");
    settle(&inline, 20);
    assert_eq!(used(&server, "bob"), 20);
    let (status, _) = call(&server, "DELETE", &format!("/v1/reservations/{permit}"), "");
    assert!(status < 300, "{status}");
    assert_eq!(reserve(&server, job(), 1)["allowed"], true, "released");
}

#[test]
fn a_limit_that_was_edited_while_stopped_continues() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let write = |limit: &str| {
        let rules = format!(
            "domain: shop\nattributes: [user]\nrules: [{{ name: api, per: user, limit: {limit} }}]"
        );
        std::fs::write(&file, rules).unwrap();
    };
    let data = tempfile::tempdir().unwrap();
    let left = |server: &Server, cost: u64| {
        let body = json!({"domain": "shop", "attributes": {"user": "ann"}, "cost": cost});
        let decision = post(server, "/v1/check", &body);
        decision["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{decision}"))
    };
    for (limit, remaining) in [
        ("100/365d", 90),
        ("200/365d", 180),
        // Another algorithm, whose states are stored differently.
        ("300/365d fixed", 270),
        ("300/365d log", 260),
    ] {
        write(limit);
        let mut server = start(data.path(), &["--rules", file.to_str().unwrap()]);
        assert_eq!(left(&server, 10), remaining, "{limit}");
        server.signal("-TERM");
        server.wait();
    }
}

#[test]
fn a_full_disk_affects_no_decision_and_leaves_the_last_snapshot() {
    let data = tempfile::tempdir().unwrap();
    // With the signal ignored, a write beyond the largest file size is an ordinary error.
    let server = start_without_size_signal(data.path());
    let set_size = |bytes: &str| {
        let (pid, limit) = (server.pid().to_string(), format!("--fsize={bytes}:"));
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    admit(&server, "ann", 7);
    wait_until_saved(&server);
    let good = std::fs::read(data.path().join("snapshot")).unwrap();
    set_size("65536");
    // A reservation that is larger than that.
    let body = json!({"attributes": {"ip": "192.0.2.1", "text": "x".repeat(100_000)}});
    assert_eq!(post(&server, "/v1/reserve", &body)["allowed"], true);
    until("error", || metric(&server, "tollgate_snapshot_errors_total") > 1.0);
    assert_eq!(std::fs::read(data.path().join("snapshot")).unwrap(), good);
    let age = metric(&server, "tollgate_snapshot_age_seconds");
    until("age", || metric(&server, "tollgate_snapshot_age_seconds") > age);
    admit(&server, "ann", 1);
    assert_eq!(used(&server, "ann"), 8);
    set_size("unlimited");
    wait_until_saved(&server);
    kill(server);
    assert_eq!(used(&start(data.path(), &[]), "ann"), 8);
}

/// Starts a server that ignores the signal of a write beyond the largest file size.
fn start_without_size_signal(data: &Path) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' 25; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tollgate")]);
    shell.args(["serve", "--json", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"]);
    shell.args(["--snapshot", "50ms", "--data"]).arg(data);
    shell.current_dir(folder.path()).env_remove("STATE_DIRECTORY");
    Server::spawn(shell, folder)
}

/// A pipe without a reader stands for a disk that does not answer.
#[test]
fn a_disk_that_does_not_answer_affects_no_decision_and_no_stop() {
    let data = tempfile::tempdir().unwrap();
    let pipe = data.path().join("snapshot.lock");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut server = start(data.path(), &["--snapshot", "10ms"]);
    until("age", || {
        admit(&server, "ann", 1);
        metric(&server, "tollgate_snapshot_age_seconds") > 0.5
    });
    assert!(!data.path().join("snapshot").exists());
    assert_eq!(server.status("/readyz"), 200);
    server.signal("-TERM");
    assert!(server.wait().success());
    assert!(server.log().contains("the last snapshot was not written within"), "{}", server.log());
}
