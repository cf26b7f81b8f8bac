//! The OpenAPI description matches the server.

use std::process::Command;

use super::client::HttpClient;
use crate::support::{client_program, start};

const RULES: &str = "
domain: demo
rules:
  - { name: login, route: POST /login, per: ip, limit: [5/min, 20/h sliding] }
  - { name: edge, per: ip, limit: 10/s burst 20 }
";

#[test]
fn every_described_call_is_answered() {
    let server = start(RULES);
    let mut client = HttpClient::connect(server.http());
    let described = client.send("GET", "/openapi.json", "").json();
    assert_eq!(described["openapi"], "3.1.0");
    for (path, calls) in described["paths"].as_object().unwrap() {
        let calls = calls.as_object().unwrap().iter();
        for (method, call) in calls.filter(|(name, _)| *name != "parameters") {
            let path = path.replace("{id}", &"0".repeat(32)).replace(['{', '}'], "");
            let response = client.send(&method.to_uppercase(), &path, "{}");
            let known = call["responses"].as_object().unwrap();
            let status = response.status.to_string();
            assert!(
                known.contains_key(&status) || known.contains_key("default"),
                "{path} {response:?}"
            );
            assert_ne!(response.status, 405, "{path}");
            assert!(response.status != 404 || path.contains("reservations"), "{path}");
        }
    }
}

#[test]
fn schemathesis_finds_nothing() {
    let server = start(RULES);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/openapi.json", server.http());
    let mut command = client_program("schemathesis");
    command.current_dir(folder.path()).args(["run", &url, "--seed", "1", "--max-examples", "5"]);
    command.args([
        "--no-color",
        "--phases",
        "examples,coverage,fuzzing,stateful",
        "--workers",
        "1",
    ]);
    // A schema cannot express which texts are limits and which domains exist, and forward-auth
    // takes every method.
    command.args(["--exclude-checks", "positive_data_acceptance,unsupported_method"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn responses_have_the_described_content_types() {
    let server = start(RULES);
    let url = format!("http://{}/openapi.json", server.http());
    let head = Command::new("curl").args(["-sSI", &url]).output().unwrap();
    let head = String::from_utf8(head.stdout).unwrap().to_ascii_lowercase();
    assert!(head.contains("200 ok") && head.contains("content-type: application/json"), "{head}");
}
