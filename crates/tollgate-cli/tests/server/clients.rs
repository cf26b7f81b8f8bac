//! Commands that call a running server.

use serde_json::Value;

use crate::process::{Server, command, until};

const LOGIN: [&str; 3] = ["demo", "ip=192.0.2.1", "route=POST /login"];

fn with<'a>(first: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&[first], rest].concat()
}

#[test]
fn check_peek_and_reset_have_exit_codes() {
    let server = Server::start(&[]);
    for left in (0..5).rev() {
        let (code, message) = server.run(&with("check", &LOGIN));
        assert_eq!(code, 0, "{message}");
        assert!(message.starts_with("allowed\n"), "{message}");
        let row = message.lines().find(|line| line.starts_with("login")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[..3], ["login", &left.to_string(), "5"], "{message}");
    }
    let (code, message) = server.run(&with("check", &LOGIN));
    assert_eq!(code, 1, "{message}");
    assert!(message.starts_with("denied by login; retry in "), "{message}");
    assert_eq!(server.run(&with("peek", &LOGIN)).0, 1);
    let (code, message) = server.run(&with("reset", &LOGIN));
    assert_eq!(code, 0, "{message}");
    let (code, message) = server.run(&with("peek", &LOGIN));
    assert_eq!(code, 0, "{message}");
    assert!(message.starts_with("would be allowed"), "{message}");

    let (code, message) =
        server.run(&["check", "--key", "a", "--limit", "2/h", "--cost", "2", "--json"]);
    assert_eq!(code, 0);
    assert_eq!(serde_json::from_str::<Value>(&message).unwrap()["limits"][0]["remaining"], 0);
    assert_eq!(server.run(&["check", "--key", "a", "--limit", "2/h"]).0, 1);
    assert_eq!(server.run(&["check", "--key", "b", "--limit", "2/h", "--cost", "3"]).0, 1);
    assert_eq!(server.run(&["reset", "--key", "a", "--limit", "2/h"]).0, 0);
    assert_eq!(server.run(&["check", "--key", "a", "--limit", "2/h"]).0, 0);
    assert_eq!(server.run(&["check", "--ready"]).0, 0);
}

#[test]
fn several_limits_are_given_and_shown_one_by_one() {
    let server = Server::start(&["--grpc", "off", "--resp", "off"]);
    let args = ["check", "--key", "a", "--limit", "10/h", "--limit", "1/day"];
    let (code, message) = server.run(&args);
    assert_eq!(code, 0, "{message}");
    let cells: Vec<Vec<&str>> =
        message.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0], ["limit", "left", "of", "in", "full", "in"], "{message}");
    assert_eq!(cells[1][..4], ["limit", "9", "10", "1h"], "{message}");
    assert_eq!(cells[2][..4], ["limit-2", "0", "1", "1d"], "{message}");
    let (code, message) = server.run(&args);
    assert_eq!(code, 1, "{message}");
    let wait = message.lines().next().unwrap();
    assert!(
        wait == "denied; retry in 1d" || wait.starts_with("denied; retry in 23h "),
        "{message}"
    );
    let (_, message) = server.run(&["peek", "--key", "a", "--limit", "10/h"]);
    assert!(message.contains(" 9 "), "the refusal charged nothing: {message}");
}

/// A URL with a query is a host and a path, not an attribute.
#[test]
fn a_url_with_a_query_is_no_attribute() {
    let folder = tempfile::tempdir().unwrap();
    let rules =
        "domain: shop\nrules: [{ name: search, route: /search, per: 'query[\"q\"]', limit: 5/h }]";
    std::fs::write(folder.path().join("tollgate.yaml"), rules).unwrap();
    let server = Server::start_in(folder, &["--grpc", "off", "--resp", "off"]);
    for words in [
        &["GET", "http://shop.example/search?q=shoes"][..],
        &["GET http://shop.example/search?q=shoes"],
        &["GET", "shop.example/search?q=shoes"],
        &["GET", "/search?q=shoes"],
    ] {
        for name in ["check", "peek", "explain"] {
            let (code, message) = server.run(&[&[name], words, &["--json"]].concat());
            let decision: Value =
                serde_json::from_str(&message).unwrap_or_else(|_| panic!("{message}"));
            let key =
                if name == "explain" { &decision["rules"][0]["key"] } else { &decision["key"] };
            assert_eq!((code, key), (0, &"shoes".into()), "{name} {words:?}: {message}");
        }
    }
}

#[test]
fn a_missing_value_of_a_key_is_called_missing() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "domain: shop\nrules: [{ name: api, per: 'header[\"x-org\"]', limit: 1/h }]";
    std::fs::write(folder.path().join("tollgate.yaml"), rules).unwrap();
    let server = Server::start_in(folder, &["--log-denied", "1"]);
    let (code, message) = server.run(&["check", "shop"]);
    assert_eq!(code, 0, "{message}");
    let note = "counted as (missing): the request lacks an attribute that api counts by\n";
    assert!(message.contains(note), "{message}");
    assert_eq!(server.run(&["check", "shop"]).0, 1);
    until("the log of decisions", || server.log().contains("(missing)"));
    until("the busy key", || server.run(&["top"]).1.contains("(missing)"));
    // Keys are written as they are shown.
    let key = ["--rule", "api", "--key", "(missing)"];
    assert_eq!(server.run(&[&["peek", "shop"][..], &key].concat()).0, 1);
    assert_eq!(server.run(&[&["reset", "shop"][..], &key].concat()).0, 0);
    assert_eq!(server.run(&[&["ban", "add"][..], &key].concat()).0, 0);
    until("the ban", || server.run(&["check", "shop"]).0 == 1);
    let (_, listed) = server.run(&["ban", "list"]);
    let (_, explained) = server.run(&["explain", "GET", "/"]);
    for shown in [&listed, &explained] {
        assert!(shown.contains("(missing)") && !shown.contains("%-"), "{shown}");
    }
}

/// A token that is missing, wrong, or has too few rights: the errors differ.
#[test]
fn errors_about_tokens_are_told_apart() {
    let server = Server::start(&["--grpc", "off", "--resp", "off"]);
    let tokens = std::fs::read_to_string(server.path("tollgate-data/tokens")).unwrap();
    let read = tokens.lines().find_map(|line| line.strip_prefix("limiter:")).unwrap();
    let read = read.strip_suffix(":read").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let run = |token: Option<&str>| {
        let args = ["reset", "demo", "ip=192.0.2.1", "--server", server.http()];
        let mut command = command(elsewhere.path(), &args);
        let output = command.envs(token.map(|token| ("TOLLGATE_TOKEN", token))).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    for (token, expected) in [
        (None, "this needs a token with the role `write`"),
        (Some("wrong-0123456789abcdef"), "the token is wrong"),
        (Some(read), "this token has the role `read`; this needs the role `write`"),
    ] {
        let message = run(token);
        assert!(message.contains(expected), "{message}");
    }
    assert!(run(Some("wrong-0123456789abcdef")).contains("from --token or TOLLGATE_TOKEN"));
    std::fs::create_dir(elsewhere.path().join("tollgate-data")).unwrap();
    std::fs::write(elsewhere.path().join("tollgate-data/tokens"), "a:stale-0123456789abcdef")
        .unwrap();
    assert!(run(None).contains("the token is from tollgate-data/tokens"));
}

/// Mistakes in bans and lists are described without positions that the caller cannot know.
#[test]
fn errors_about_bans_and_lists_say_what_to_do() {
    let server = Server::start(&["--grpc", "off", "--resp", "off"]);
    let shop = "domain: shop\nlists: { office: [10.0.0.0/8, 192.0.2.1], empty: [] }\n\
                rules: [{ name: login, per: ip, limit: 1/h }]\n";
    std::fs::write(server.path("shop.yaml"), shop).unwrap();
    assert_eq!(server.run(&["rules", "put", "shop", "shop.yaml"]).0, 0);
    let add = ["ban", "add", "--rule", "login", "--key", "192.0.2.1"];
    assert_eq!(server.run(&[&add[..], &["--domain", "demo"]].concat()).0, 0);
    let (code, message) = server.run(&add);
    assert_eq!(code, 1, "{message}");
    assert!(
        message.contains("`domain` is missing, and there are several: name one of"),
        "{message}"
    );
    assert!(message.contains("demo") && message.contains("shop"), "{message}");
    assert!(!message.contains("bans["), "{message}");
    for action in ["add", "remove"] {
        let (code, message) = server.run(&["lists", action, "office", "192.0.2.7"]);
        assert_eq!(code, 2, "{message}");
        let defined = "the list `office` is defined in shop (2 entries), and is not data";
        assert!(message.contains(defined), "{message}");
        assert!(message.contains("tollgate lists set office"), "{message}");
    }
    let (code, message) = server.run(&["lists", "add", "nowhere", "192.0.2.7"]);
    assert!(code == 2 && message.contains("no list `nowhere`: declare it"), "{message}");
    let (code, message) = server.run(&["lists", "set", "nowhere", "192.0.2.7", "--domain", "shop"]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("the rules have no list") && !message.contains("lists["), "{message}");
    // A list that the file declares without entries has none to hide.
    let (code, message) = server.run(&["lists", "add", "empty", "192.0.2.7", "--domain", "shop"]);
    assert_eq!(code, 0, "{message}");
    let (_, shown) = server.run(&["lists", "show", "empty", "--domain", "shop"]);
    assert_eq!(shown, "192.0.2.7\n");
}

#[test]
fn errors_are_no_denials() {
    let server = Server::start(&["--grpc", "off", "--resp", "off"]);
    for (args, expected) in [
        (&["check"][..], "give a request, or --key and --limit"),
        (&["check", "--key", "a"], "--key needs a limit"),
        (&["check", "--key", "a", "--limit", "ten"], "limit"),
        (&["check", "nowhere", "ip=192.0.2.1"], "nowhere"),
        (&["check", "demo", "ip"], "neither a method, a path nor NAME=VALUE"),
        (&["peek", "demo", "--rule", "nothing", "--key", "a"], "nothing"),
    ] {
        let (code, message) = server.run(args);
        assert_eq!(code, 2, "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let refused =
        command(folder.path(), &["check", "demo", "--server", "http://127.0.0.1:1"]).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("no response from http://127.0.0.1:1"), "{message}");
}

/// The commands find the token in the data folder of their working directory.
#[test]
fn busy_keys_are_listed_and_can_be_banned() {
    let server = Server::start(&[]);
    for _ in 0..7 {
        server.run(&with("check", &LOGIN));
    }
    let top = |by: &str| -> Value {
        let (code, message) = server.run(&["top", "--by", by, "--json"]);
        assert_eq!(code, 0, "{message}");
        serde_json::from_str(&message).unwrap()
    };
    until("the noisy key", || top("denied")["keys"][0]["denied"] == 2);
    let (code, table) = server.run(&["top", "--by", "denied"]);
    assert_eq!(code, 0);
    assert!(table.lines().nth(1).unwrap().contains("192.0.2.1"), "{table}");

    let (code, message) = server.run(&["peek", "demo", "--rule", "login", "--key", "192.0.2.1"]);
    assert_eq!(code, 1, "{message}");
    let (code, message) = server.run(&["reset", "demo", "--rule", "login", "--key", "192.0.2.1"]);
    assert_eq!(code, 0, "{message}");
    assert_eq!(server.run(&with("check", &LOGIN)).0, 0);

    let ban =
        ["ban", "add", "--rule", "login", "--key", "192.0.2.1", "--for", "1h", "--reason", "rude"];
    let (code, message) = server.run(&ban);
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("added ban 1"), "{message}");
    until("the ban", || server.run(&with("check", &LOGIN)).0 == 1);
    let (_, listed) = server.run(&["ban", "list"]);
    assert!(listed.contains("192.0.2.1") && listed.contains("rude"), "{listed}");
    let (code, message) = server.run(&["ban", "remove", "1"]);
    assert_eq!(code, 0, "{message}");
    until("the end of it", || server.run(&with("check", &LOGIN)).0 == 0);

    let anonymous = command(&std::env::temp_dir(), &["top", "--server", server.http()]).output();
    let anonymous = anonymous.unwrap();
    assert_eq!(anonymous.status.code(), Some(2));
    assert!(String::from_utf8(anonymous.stderr).unwrap().contains("TOLLGATE_TOKEN"));
}

#[test]
fn decisions_can_be_followed() {
    let mut server = Server::start(&["--drain-notice", "0"]);
    let args = ["tail", "--outcome", "denied", "--server", server.http()];
    let mut tail = command(server.folder.path(), &args);
    let tail = tail.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let denied = ["check", "--key", "evil\u{1b}[2J", "--limit", "1/h", "--cost", "2"];
    let fine = ["check", "--key", "good", "--limit", "1k/h"];
    // A follower sees only later decisions.
    let (code, _) = server.run(&fine);
    assert_eq!(code, 0);
    for _ in 0..20 {
        server.run(&denied);
    }
    server.signal("-TERM");
    assert_eq!(server.wait().code(), Some(0));
    let output = tail.wait_with_output().unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(
        message.lines().count() > 0 && message.lines().all(|line| line.contains("denied")),
        "{message}"
    );
    assert!(message.contains("evil") && !message.contains('\u{1b}'), "{message}");
    assert!(message.contains("(inline limit)  evil"), "{message}");
}

#[test]
fn rules_are_changed_in_a_running_server() {
    let server = Server::start(&[]);
    std::fs::write(server.path("shop.yaml"), "domain: shop\nrules: [{ name: api, limit: 1/h }]\n")
        .unwrap();
    let (code, message) = server.run(&["rules", "put", "shop", "shop.yaml"]);
    assert_eq!(code, 0, "{message}");
    until("the new rules", || server.run(&["check", "shop"]).0 != 2);
    until("the limit", || server.run(&["check", "shop"]).0 == 1);
    let (code, message) = server.run(&["rules", "list"]);
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("shop"), "{message}");
}

/// Commands take the value of a secret; the server stores, logs and prints its hash.
#[test]
fn operators_give_the_value_of_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    let text = "domain: shop\nrules: [{ name: api, per: 'header[\"x-api-key\"]', limit: 1/h }]";
    std::fs::write(&rules, text).unwrap();
    let rules = rules.to_str().unwrap().to_owned();
    let logged = ["--log-denied", "1", "--log-allowed", "1"];
    let server = Server::start_in(folder, &[&["--rules", rules.as_str()][..], &logged].concat());
    let secret = "s3cret-value-of-ann";
    let request = ["shop", "header.x-api-key=s3cret-value-of-ann"];
    assert_eq!(server.run(&with("check", &request)).0, 0);
    assert_eq!(server.run(&with("check", &request)).0, 1);
    let by_key = ["shop", "--rule", "api", "--key", secret];
    let (code, shown) = server.run(&with("peek", &by_key));
    assert_eq!(code, 1, "{shown}");
    assert_eq!(server.run(&with("reset", &by_key)).0, 0);
    assert_eq!(server.run(&with("check", &request)).0, 0);
    let (code, added) = server.run(&["ban", "add", "--rule", "api", "--key", secret]);
    assert_eq!(code, 0, "{added}");
    until("the ban", || server.run(&["peek", "shop", request[1]]).1.contains("denied"));
    until("the log of decisions", || server.log().contains("%#"));
    let (_, bans) = server.run(&["ban", "list"]);
    let (_, top) = server.run(&["top", "--json"]);
    assert!(bans.contains("%#") && top.contains("%#"), "{bans}\n{top}");
    for output in [bans, top, server.log()] {
        assert!(!output.contains(secret), "{output}");
    }
}
