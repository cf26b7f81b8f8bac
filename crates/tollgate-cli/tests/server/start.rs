//! The start of a server: its output, its warnings, and its notifications to systemd.
#![allow(clippy::disallowed_methods, reason = "starting takes real time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{DEADLINE, Server, command, shell};

/// Bare `tollgate`, with free ports set by variables; its output is text.
fn announced(more: &[(&str, &str)]) -> (Server, String) {
    let folder = tempfile::tempdir().unwrap();
    let doors = ["TOLLGATE_HTTP", "TOLLGATE_GRPC", "TOLLGATE_RESP"];
    let any = doors.map(|door| (door, "127.0.0.1:0"));
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut command = command(folder.path(), &[]);
    command.envs(any).envs(more.iter().copied());
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut text = String::new();
    // The last line is the hint for Envoy.
    while !text.contains("Envoy: ") {
        let line = lines.next().unwrap_or_else(|| panic!("{text}")).unwrap();
        text += &format!("{line}\n");
    }
    (Server { child, start_output: Value::Null, folder }, text)
}

#[test]
fn the_announced_curl_is_denied_at_the_sixth_call() {
    let started = Instant::now();
    let (server, text) = announced(&[]);
    assert!(started.elapsed() < Duration::from_secs(5), "it starts at once");
    let curl = text.lines().map(str::trim).find(|line| line.starts_with("curl ")).unwrap();
    let answers: Vec<Value> = (0..6).map(|_| serde_json::from_str(&shell(curl)).unwrap()).collect();
    let allowed: Vec<bool> = answers.iter().map(|a| a["allowed"].as_bool().unwrap()).collect();
    assert_eq!(allowed, [true, true, true, true, true, false], "{answers:?}");
    assert_eq!((&answers[5]["rule"], &answers[5]["code"]), (&"login".into(), &429.into()));

    let redis = text.lines().map(str::trim).find(|line| line.starts_with("redis-cli ")).unwrap();
    let first: Vec<String> = (0..6).map(|_| shell(redis)[..1].to_owned()).collect();
    assert_eq!(first, ["0", "0", "0", "0", "0", "1"]);
    drop(server);
}

#[test]
fn the_admin_token_is_not_shown_in_logs_and_kept_private() {
    let (server, text) = announced(&[]);
    let file = server.path("tollgate-data/tokens");
    let tokens = std::fs::read_to_string(&file).unwrap();
    let token = tokens.lines().find_map(|line| line.strip_prefix("admin:")).unwrap();
    assert!(!text.contains(token) && !server.log().contains(token), "{text}");
    assert!(text.contains("tollgate-data/tokens"), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mut server = server;
    server.signal("-KILL");
    server.wait();
    let data = file.parent().unwrap().to_str().unwrap().to_owned();
    let (_again, text) = announced(&[("TOLLGATE_DATA", &data)]);
    assert!(!text.contains(token), "{text}");
    assert!(text.contains("tollgate-data/tokens"), "{text}");
}

/// Starts a server in a terminal, stops it by Ctrl-C, and returns its output.
fn announced_in_terminal(folder: &std::path::Path) -> String {
    let program = command(folder, &[]).get_program().to_str().unwrap().to_owned();
    let doors = "--http 127.0.0.1:0 --grpc off --resp 127.0.0.1:0 --drain-notice 0s";
    // A server that outlives its terminal would ignore the hang-up.
    let line = format!("timeout --foreground 120 {program} serve {doors}");
    let mut script = std::process::Command::new("script");
    script.current_dir(folder).args(["-qec", &line, "/dev/null"]);
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    // The last line is the hint for Redis clients.
    while !text.contains("redis-cli ") {
        assert_ne!(output.read_line(&mut text).unwrap(), 0, "{text}");
    }
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(b"\x03").unwrap();
    keyboard.flush().unwrap();
    output.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn the_admin_token_is_shown_once_in_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let first = announced_in_terminal(folder.path());
    let tokens = std::fs::read_to_string(folder.path().join("tollgate-data/tokens")).unwrap();
    let token = tokens.lines().find_map(|line| line.strip_prefix("admin:")).unwrap();
    assert!(first.contains(token), "{first}");
    assert!(!announced_in_terminal(folder.path()).contains(token));
}

#[test]
fn the_json_output_names_the_file_of_tokens_only() {
    let server = Server::start(&["--grpc", "off", "--resp", "off"]);
    assert!(server.start_output["admin_token"].is_null(), "{}", server.start_output);
    let tokens = server.start_output["tokens"].as_str().unwrap();
    assert!(tokens.ends_with("tollgate-data/tokens"), "{tokens}");
}

#[test]
fn a_port_in_use_is_reported_with_what_to_do() {
    let server = Server::start(&["--grpc", "off", "--resp", "off"]);
    assert!(
        server.start_output["grpc"].is_null() && server.start_output["resp"].is_null(),
        "{}",
        server.start_output
    );
    let taken = server.at("http");
    let args = ["serve", "--http", taken, "--grpc", "off", "--resp", "off", "--data", "other"];
    let second = command(server.folder.path(), &args).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let message = String::from_utf8(second.stderr).unwrap();
    let error = message.lines().find(|line| line.starts_with("error:")).unwrap();
    let expected = format!(
        "error: cannot listen on {taken}: it is in use, perhaps by another tollgate; stop that, or \
         choose another address with --http"
    );
    assert_eq!(error, expected);
}

/// Whatever is in use, the error names the flag that chooses another.
#[test]
fn what_is_in_use_is_reported_with_its_flag() {
    let server = Server::start(&["--grpc", "off", "--resp", "unix:resp.sock"]);
    let taken = server.at("http");
    let off = ["--http", "off", "--grpc", "off", "--resp", "off", "--data", "other"];
    for (command_name, flag, address) in [
        ("serve", "--http", taken),
        ("serve", "--grpc", taken),
        ("serve", "--resp", taken),
        ("serve", "--resp", "unix:resp.sock"),
        ("serve", "--admin", taken),
        ("gateway", "--listen", taken),
    ] {
        let mut args = vec![command_name];
        for pair in off.chunks(2).filter(|pair| pair[0] != flag) {
            args.extend(pair);
        }
        args.extend([flag, address]);
        if command_name == "gateway" {
            args.extend(["--to", "localhost:3000"]);
        }
        let second = command(server.folder.path(), &args).output().unwrap();
        let message = String::from_utf8(second.stderr).unwrap();
        assert_eq!(second.status.code(), Some(2), "{args:?}: {message}");
        let expected = format!(
            "it is in use, perhaps by another tollgate; stop that, or choose \
                                another address with {flag}\n"
        );
        assert!(message.ends_with(&expected), "{args:?}: {message}");
    }
    let args = ["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"];
    let second = command(server.folder.path(), &args).output().unwrap();
    let message = String::from_utf8(second.stderr).unwrap();
    let expected = "error: the data folder tollgate-data is in use by another tollgate; stop that, or \
                    choose another folder with --data\n";
    assert!(message.ends_with(expected), "{message}");
    let rules = ["rules", "serve", "--listen", taken, "--data", "third"];
    let second = command(server.folder.path(), &rules).output().unwrap();
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.contains("choose another address with --listen"), "{message}");
}

/// The hint names a domain of the rules in use, also after the sample was replaced.
#[test]
fn the_announced_curl_works_with_the_rules_in_use() {
    let rules = "domain: shop\nrules: [{ name: api, per: ip, limit: 2/h }]\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.yaml");
    std::fs::write(&path, rules).unwrap();
    let curl = |text: &str| {
        let line = text.lines().map(str::trim).find(|line| line.starts_with("curl "));
        serde_json::from_str::<Value>(&shell(line.unwrap())).unwrap()
    };
    let (server, text) = announced(&[("TOLLGATE_RULES", path.to_str().unwrap())]);
    assert!(text.contains("domain shop; reloaded when they change"), "{text}");
    assert!(text.contains("domain shop in its ratelimit filter"), "{text}");
    let decision = curl(&text);
    assert_eq!((&decision["allowed"], &decision["rule"]), (&true.into(), &"api".into()));
    drop(server);
    // Rules in the data folder that are no longer the sample.
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let args = ["rules", "serve", "--listen", "127.0.0.1:0", "--data", &data, "--import"];
    let args: Vec<&str> = args.into_iter().chain([path.to_str().unwrap()]).collect();
    let mut import = command(folder.path(), &args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(import.stdout.take().unwrap()).read_line(&mut line).unwrap();
    import.kill().unwrap();
    import.wait().unwrap();
    let (_server, text) = announced(&[("TOLLGATE_DATA", &data)]);
    assert!(!text.contains("demo"), "{text}");
    assert_eq!(curl(&text)["rule"], "api", "{text}");
}

#[test]
fn public_doors_are_warned_of() {
    let server = Server::start(&["--http", "0.0.0.0:0", "--grpc", "off", "--log", "json"]);
    server.wait_for_log("needs no authentication");
    let log = server.log();
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let warnings: Vec<&str> = lines
        .iter()
        .filter(|line| line["level"] == "WARN")
        .map(|line| line["message"].as_str().unwrap())
        .collect();
    assert_eq!(warnings.len(), 2, "{log}");
    assert!(warnings[0].contains("http door on 0.0.0.0:0 is public and unencrypted"));
    assert!(lines.iter().all(|line| line["timestamp"].is_string()), "{log}");
}

#[test]
fn a_unix_socket_is_a_door() {
    let server = Server::start(&["--http", "unix:http.sock", "--grpc", "off", "--resp", "off"]);
    assert_eq!(server.start_output["http"], "unix:http.sock");
    let socket = server.path("http.sock");
    let url = "http://tollgate/v1/limit";
    let body = r#"{"key":"a","limit":"5/min"}"#;
    let answer = shell(&format!("curl -s --unix-socket {} {url} -d '{body}'", socket.display()));
    assert!(answer.contains(r#""allowed":true"#), "{answer}");
    let mut server = server;
    server.signal("-TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(!socket.exists(), "it takes the socket's file along");
}

#[test]
fn systemd_is_notified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let notification = || {
        let mut message = [0; 64];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let args = ["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"];
    let mut command = command(folder.path(), &args);
    command.env("NOTIFY_SOCKET", &path).env("STATE_DIRECTORY", folder.path().join("state"));
    command.env("TOLLGATE_DRAIN_NOTICE", "0").stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let mut server = Server { child, start_output: Value::Null, folder };
    assert_eq!(notification(), "READY=1");
    assert!(server.path("state/tokens").exists(), "data goes to the state directory");
    server.signal("-INT");
    assert_eq!(notification(), "STOPPING=1");
    assert_eq!(server.wait().code(), Some(0));
    let mut message = String::new();
    server.child.stdout.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(message.contains("tollgate"), "{message}");
}
