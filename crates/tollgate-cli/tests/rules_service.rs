//! `tollgate rules serve` as a separate process, and the commands that call it.

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use support::{Run, tollgate_in};
use tempfile::TempDir;
use tollgate_rules::{Request, RuleLimiter};
use tollgate_server::sources::Origin;

const DEADLINE: Duration = Duration::from_secs(60);

fn shop(limit: &str) -> String {
    format!(
        "domain: shop\nattributes: [org]\nlists: {{ office: [] }}\nrules:\n  - {{ name: api, limit: {limit} }}\n"
    )
}

/// A service that is killed when it is dropped.
struct Service {
    child: Child,
    url: String,
    admin: String,
    limiter: String,
}

impl Service {
    fn start(data: &Path, listen: &str, more: &[&str]) -> Service {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(["rules", "serve", "--json", "--listen", listen, "--data"]).arg(data);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let start_output: Value =
            serde_json::from_str(&line).expect("the server prints its addresses");
        let tokens = std::fs::read_to_string(data.join("tokens")).unwrap();
        let token = |name: &str| {
            let line = tokens.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split(':').next().unwrap().to_owned()
        };
        let url = start_output["url"].as_str().unwrap().to_owned();
        Service { child, url, admin: token("admin:"), limiter: token("limiter:") }
    }

    fn new() -> (Service, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (Service::start(folder.path(), "127.0.0.1:0", &[]), folder)
    }

    fn run(&self, args: &[&str], stdin: &str) -> Run {
        let env = [("TOLLGATE_SERVER", &*self.url), ("TOLLGATE_TOKEN", &*self.admin)];
        tollgate_in(&env, args, stdin)
    }

    fn fine(&self, args: &[&str], stdin: &str) -> String {
        let run = self.run(args, stdin);
        assert_eq!((run.code, &*run.stderr), (0, ""), "{args:?}: {}", run.stdout);
        run.stdout
    }

    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.fine(&args, "")).unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_tour_of_the_commands() {
    let (service, _folder) = Service::new();
    let made = service.fine(&["rules", "put", "shop", "-"], &shop("1/s"));
    assert!(made.contains("added  api") && made.contains("shop is version 1 now"), "{made}");
    assert_eq!(service.fine(&["rules", "get", "shop"], ""), shop("1/s"));

    let dry = service.fine(&["rules", "put", "shop", "-", "--dry-run"], &shop("2/s"));
    assert!(dry.contains("-  - { name: api, limit: 1/s }"), "{dry}");
    assert!(dry.contains("changed  api") && dry.contains("nothing was changed"), "{dry}");
    assert_eq!(service.json(&["rules", "list"])["files"][0]["version"], 1);

    service.fine(&["rules", "put", "shop", "-"], &shop("2/s"));
    let history = service.fine(&["rules", "history", "shop"], "");
    assert_eq!(history.lines().count(), 3, "{history}");
    let back = service.fine(&["rules", "rollback", "shop", "--to", "1"], "");
    assert!(back.contains("restored version 1 of shop"), "{back}");
    assert_eq!(service.fine(&["rules", "get", "shop"], ""), shop("1/s"));
    assert_eq!(service.fine(&["rules", "get", "shop", "--version", "2"], ""), shop("2/s"));

    let add = ["override", "add", "--match", "org=acme", "--rule", "api", "--limit", "5/s"];
    assert!(service.fine(&add, "").contains("added override 1"));
    let listed = service.fine(&["override", "list"], "");
    assert!(listed.contains("org=acme") && listed.contains("5/s"), "{listed}");
    service.fine(&["override", "remove", "1"], "");
    assert_eq!(service.json(&["override", "list"])["overrides"], json!([]));

    service.fine(&["lists", "set", "office", "10.0.0.0/8"], "");
    service.fine(&["lists", "add", "office", "-"], "192.0.2.1\n\n192.0.2.2\n");
    service.fine(&["lists", "remove", "office", "192.0.2.1"], "");
    assert_eq!(service.fine(&["lists", "show", "office"], ""), "10.0.0.0/8\n192.0.2.2\n");
    assert!(service.fine(&["lists", "show"], "").contains("10.0.0.0/8, 192.0.2.2"));
    service.fine(&["lists", "remove", "office", "--all"], "");

    service.fine(&["rules", "remove", "shop"], "");
    let audit = service.fine(&["rules", "audit"], "");
    assert_eq!(audit.lines().count(), 11, "{audit}");
    assert!(audit.contains("rules.rollback") && audit.contains("2 → 3"), "{audit}");
}

#[test]
fn exit_codes_distinguish_invalid_rules_from_errors() {
    let (service, _folder) = Service::new();
    service.fine(&["rules", "put", "shop", "-"], &shop("1/s"));
    let wrong = service.run(&["rules", "put", "shop", "-"], "rules:\n  - { nmae: api }\n");
    assert_eq!((wrong.code, &*wrong.stderr), (1, ""));
    assert!(wrong.stdout.contains("shop:2:"), "{}", wrong.stdout);
    let unknown = ["override", "add", "--match", "org=a", "--rule", "apo", "--limit", "1/s"];
    assert_eq!(service.run(&unknown, "").code, 1);
    let json = service.run(&["rules", "put", "shop", "-", "--json"], "rules: 1");
    assert_eq!(json.code, 1);
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap()["code"], "invalid-rules");

    let stale = ["rules", "put", "shop", "-", "--if-match", "0-x"];
    let stale = service.run(&stale, &shop("2/s"));
    assert_eq!((stale.code, &*stale.stdout), (2, ""));
    assert!(stale.stderr.contains("in the meantime"), "{}", stale.stderr);
    assert_eq!(service.run(&["rules", "get", "none"], "").code, 2);
    let without_token = [("TOLLGATE_SERVER", &*service.url)];
    let refused = tollgate_in(&without_token, &["rules", "list"], "");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("TOLLGATE_TOKEN"), "{}", refused.stderr);
    let nowhere = tollgate_in(&[("TOLLGATE_SERVER", "http://127.0.0.1:1")], &["rules", "list"], "");
    assert_eq!(nowhere.code, 2);
    assert!(nowhere.stderr.contains("no response from http://127.0.0.1:1"), "{}", nowhere.stderr);
}

#[test]
fn rules_are_imported_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let rules = support::folder(&[
        ("shop.yaml", &shop("1/s")),
        ("mail.yml", "domain: mail\nrules: [{ name: send, limit: 5/d }]\n"),
    ]);
    let from = rules.path().display().to_string();
    for _ in 0..2 {
        let service = Service::start(folder.path(), "127.0.0.1:0", &["--import", &from]);
        let listed = service.json(&["rules", "list"]);
        assert_eq!(listed["revision"], 1, "the same again is no change");
        assert_eq!(listed["files"][0]["name"], "mail");
        assert_eq!(listed["files"][1]["name"], "shop");
    }
    std::fs::write(rules.path().join("shop.yaml"), "rules: 1").unwrap();
    let data = folder.path().display().to_string();
    let run = tollgate_in(&[], &["rules", "serve", "--data", &data, "--import", &from], "");
    assert_eq!(run.code, 2);
}

/// The service is killed repeatedly: acknowledged changes are still there, and the limiter never stops
/// deciding, even if it restarts while the service is down.
#[test]
fn a_killed_service_loses_nothing_and_stops_no_limiter() {
    let (data, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut service = Service::start(data.path(), "127.0.0.1:0", &[]);
    service.fine(&["rules", "put", "shop", "-"], &shop("1/h"));
    let listen = service.url.strip_prefix("http://").unwrap().to_owned();
    let origin = Origin::url(&format!("{}/v1/rules/bundle", service.url)).unwrap();
    let origin = origin.token(Some(service.limiter.parse().unwrap())).copy_folder(copies.path());
    let origin = origin.every(Duration::from_millis(50));
    let limit = |limiter: &tollgate_rules::RuleLimiter| {
        let decision = limiter.decide_now(&Request::new("GET", "/").cost(0));
        decision.tightest().map_or(0, |limit| limit.verdict.limit)
    };
    for round in 2..5 {
        let opened = origin.clone().open().unwrap();
        let limiter = RuleLimiter::new(opened.rules().clone());
        let follower = opened.follow(limiter.clone());
        service.fine(&["rules", "put", "shop", "-"], &shop(&format!("{round}/h")));
        assert!(follower.wait_until(DEADLINE, |_| limit(&limiter) == round));
        service.kill();
        follower.refresh();
        assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_some()));
        assert_eq!(limit(&limiter), round, "goes on");
        drop(follower);

        let restarted = origin.clone().open().unwrap();
        assert!(restarted.status().from_copy);
        let limiter = RuleLimiter::new(restarted.rules().clone());
        assert_eq!(limit(&limiter), round, "starts with the last good copy");
        let follower = restarted.follow(limiter.clone());

        service = Service::start(data.path(), &listen, &[]);
        assert_eq!(service.json(&["rules", "list"])["files"][0]["version"], round);
        follower.refresh();
        assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_none()));
    }
}

#[cfg(unix)]
#[test]
fn a_signal_stops_the_service() {
    let (mut service, _folder) = Service::new();
    let pid = service.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(service.child.wait().unwrap().code(), Some(0));
}
