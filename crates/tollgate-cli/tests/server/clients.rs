//! Commands that ask a running server.

use serde_json::Value;

use crate::process::{Server, command, until};

const LOGIN: [&str; 3] = ["demo", "ip=192.0.2.1", "route=POST /login"];

fn with<'a>(first: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&[first], rest].concat()
}

#[test]
fn check_peek_and_reset_answer_by_their_exit_codes() {
    let server = Server::start(&[]);
    for left in (0..5).rev() {
        let (code, said) = server.ask(&with("check", &LOGIN));
        assert_eq!(code, 0, "{said}");
        assert!(said.starts_with("allowed\n"), "{said}");
        let row = said.lines().find(|line| line.starts_with("login")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[..3], ["login", &left.to_string(), "5"], "{said}");
    }
    let (code, said) = server.ask(&with("check", &LOGIN));
    assert_eq!(code, 1, "{said}");
    assert!(said.starts_with("denied by login; retry in "), "{said}");
    assert_eq!(server.ask(&with("peek", &LOGIN)).0, 1);
    let (code, said) = server.ask(&with("reset", &LOGIN));
    assert_eq!(code, 0, "{said}");
    let (code, said) = server.ask(&with("peek", &LOGIN));
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("would be allowed"), "{said}");

    let (code, said) =
        server.ask(&["check", "--key", "a", "--limit", "2/h", "--cost", "2", "--json"]);
    assert_eq!(code, 0);
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["limits"][0]["remaining"], 0);
    assert_eq!(server.ask(&["check", "--key", "a", "--limit", "2/h"]).0, 1);
    assert_eq!(server.ask(&["check", "--key", "b", "--limit", "2/h", "--cost", "3"]).0, 1);
    assert_eq!(server.ask(&["reset", "--key", "a", "--limit", "2/h"]).0, 0);
    assert_eq!(server.ask(&["check", "--key", "a", "--limit", "2/h"]).0, 0);
    assert_eq!(server.ask(&["check", "--ready"]).0, 0);
}

#[test]
fn mistakes_are_errors_and_not_denials() {
    let server = Server::start(&["--grpc", "off", "--resp", "off"]);
    for (args, says) in [
        (&["check"][..], "give a domain, or --key and --limit"),
        (&["check", "--key", "a"], "--key comes with --limit"),
        (&["check", "--key", "a", "--limit", "ten"], "limit"),
        (&["check", "nowhere", "ip=192.0.2.1"], "nowhere"),
        (&["check", "demo", "ip"], "write it as NAME=VALUE"),
        (&["peek", "demo", "--rule", "nothing", "--key", "a"], "nothing"),
    ] {
        let (code, said) = server.ask(args);
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let nobody =
        command(folder.path(), &["check", "demo", "--server", "http://127.0.0.1:1"]).output();
    let nobody = nobody.unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(said.contains("no answer from http://127.0.0.1:1"), "{said}");
}

/// The token is found in the data folder, beside which these commands run.
#[test]
fn who_is_noisy_can_be_seen_and_stopped() {
    let server = Server::start(&[]);
    for _ in 0..7 {
        server.ask(&with("check", &LOGIN));
    }
    let top = |by: &str| -> Value {
        let (code, said) = server.ask(&["top", "--by", by, "--json"]);
        assert_eq!(code, 0, "{said}");
        serde_json::from_str(&said).unwrap()
    };
    until("the noisy key", || top("denied")["keys"][0]["denied"] == 2);
    let (code, table) = server.ask(&["top", "--by", "denied"]);
    assert_eq!(code, 0);
    assert!(table.lines().nth(1).unwrap().contains("192.0.2.1"), "{table}");

    let (code, said) = server.ask(&["peek", "demo", "--rule", "login", "--key", "192.0.2.1"]);
    assert_eq!(code, 1, "{said}");
    let (code, said) = server.ask(&["reset", "demo", "--rule", "login", "--key", "192.0.2.1"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(server.ask(&with("check", &LOGIN)).0, 0);

    let ban =
        ["ban", "add", "--rule", "login", "--key", "192.0.2.1", "--for", "1h", "--reason", "rude"];
    let (code, said) = server.ask(&ban);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("added ban 1"), "{said}");
    until("the ban", || server.ask(&with("check", &LOGIN)).0 == 1);
    let (_, listed) = server.ask(&["ban", "list"]);
    assert!(listed.contains("192.0.2.1") && listed.contains("rude"), "{listed}");
    let (code, said) = server.ask(&["ban", "remove", "1"]);
    assert_eq!(code, 0, "{said}");
    until("the end of it", || server.ask(&with("check", &LOGIN)).0 == 0);

    let stranger = command(&std::env::temp_dir(), &["top", "--server", server.http()]).output();
    let stranger = stranger.unwrap();
    assert_eq!(stranger.status.code(), Some(2));
    assert!(String::from_utf8(stranger.stderr).unwrap().contains("TOLLGATE_TOKEN"));
}

#[test]
fn decisions_can_be_watched() {
    let mut server = Server::start(&["--drain-notice", "0"]);
    let args = ["tail", "--outcome", "denied", "--server", server.http()];
    let mut tail = command(server.folder.path(), &args);
    let tail = tail.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let denied = ["check", "--key", "evil\u{1b}[2J", "--limit", "1/h", "--cost", "2"];
    let fine = ["check", "--key", "good", "--limit", "1k/h"];
    // Whoever watches sees what comes after.
    let (code, _) = server.ask(&fine);
    assert_eq!(code, 0);
    for _ in 0..20 {
        server.ask(&denied);
    }
    server.signal("-TERM");
    assert_eq!(server.wait().code(), Some(0));
    let output = tail.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.lines().count() > 0 && said.lines().all(|line| line.contains("denied")), "{said}");
    assert!(said.contains("evil") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn rules_are_changed_in_a_running_server() {
    let server = Server::start(&[]);
    std::fs::write(server.path("shop.yaml"), "domain: shop\nrules: [{ name: api, limit: 1/h }]\n")
        .unwrap();
    let (code, said) = server.ask(&["rules", "put", "shop", "shop.yaml"]);
    assert_eq!(code, 0, "{said}");
    until("the new rules", || server.ask(&["check", "shop"]).0 != 2);
    until("the limit", || server.ask(&["check", "shop"]).0 == 1);
    let (code, said) = server.ask(&["rules", "list"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("shop"), "{said}");
}
