//! Where rules come from: the service inside, a file, another service.

use std::time::Duration;

use serde_json::json;
use tollgate_server::Config;
use tollgate_server::secret::Secret;
use tollgate_server::sources::Origin;

use super::API;
use super::client::{Answer, Operator};
use crate::support::{DEADLINE, start_with};

/// Asks until an answer is as wanted.
fn eventually(ask: impl Fn() -> Answer, wanted: impl Fn(&Answer) -> bool) -> Answer {
    for _ in 0..DEADLINE.as_millis() / 10 {
        let answer = ask();
        if wanted(&answer) {
            return answer;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("not in time: {:?}", ask());
}

fn inside(data: Option<&std::path::Path>) -> impl FnOnce(&mut Config) {
    let data = data.map(std::path::Path::to_owned);
    move |config| {
        config.rules = None;
        config.data = data;
    }
}

#[test]
fn at_first_there_is_a_sample_and_a_change_is_in_force_at_once() {
    let server = start_with("", inside(None));
    let operator = Operator::of(&server);
    let files = operator.get("/v1/rules").json();
    assert_eq!(files["files"][0]["name"], "sample");
    assert_eq!(operator.get("/readyz").json()["rules"]["count"], 2);

    let made = operator.send("PUT", "/v1/rules/shop", API, &[]);
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(operator.delete("/v1/rules/sample").status, 428, "If-Match is needed");
    let removed = operator.send("DELETE", "/v1/rules/sample", "", &[("if-match", "*")]);
    assert_eq!(removed.status, 200, "{}", removed.text);
    // No wait: the answer comes once the rules are in force.
    assert!(operator.passes("ann") && operator.passes("ann") && !operator.passes("ann"));

    let dry = operator.send("PUT", "/v1/rules/shop?dry_run=true", "rules: [", &[]);
    assert_eq!(dry.status, 422);
    let none = operator.send("DELETE", "/v1/rules/shop", "", &[("if-match", "*")]);
    assert_eq!(none.status, 200, "{}", none.text);
    let unready = operator.get("/readyz");
    assert_eq!((unready.status, &unready.json()["why"]), (503, &json!("there are no rules")));
    server.stop();
}

#[test]
fn a_restart_keeps_rules_overrides_lists_and_bans() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "\
domain: shop
lists: { vip: [] }
rules:
  - { name: vip, when: user in lists.vip, then: allow }
  - { name: api, per: user, limit: 2/h }
";
    let server = start_with("", inside(Some(folder.path())));
    let operator = Operator::of(&server);
    let headers = [("if-match", "*")];
    operator.send("DELETE", "/v1/rules/sample", "", &headers);
    assert_eq!(operator.send("PUT", "/v1/rules/shop", rules, &[]).status, 201);
    let over = json!({ "match": { "user": "big" }, "rule": "api", "limit": "4/h" });
    assert_eq!(operator.post("/v1/overrides", &over).status, 201);
    let ban = json!({ "rule": "api", "key": "mallory", "for": "1h", "reason": "scraping" });
    assert_eq!(operator.post("/v1/bans", &ban).status, 201);
    let list = operator.send("PUT", "/v1/lists/vip", r#"{"entries":["ann"]}"#, &[]);
    assert_eq!(list.status, 201, "{}", list.text);
    server.stop();

    let server = start_with("", inside(Some(folder.path())));
    let operator = Operator::of(&server);
    assert!((0..5).all(|_| operator.passes("ann")));
    assert!((0..4).all(|_| operator.passes("big")) && !operator.passes("big"));
    assert!(!operator.passes("mallory"));
    assert_eq!(operator.get("/v1/bans").json()["bans"][0]["reason"], "scraping");
    let audit = operator.get("/v1/audit").json();
    let actions: Vec<&str> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["action"].as_str().unwrap())
        .collect();
    for action in ["rules.import", "rules.put", "override.add", "ban.add", "list.set"] {
        assert!(actions.contains(&action), "{action}: {actions:?}");
    }
    server.stop();
}

#[test]
fn rules_of_a_file_are_changed_there_and_data_here() {
    let server = start_with(API, |_| {});
    let operator = Operator::of(&server);
    for (method, path) in [
        ("PUT", "/v1/rules/rules.yaml"),
        ("DELETE", "/v1/rules/rules.yaml"),
        ("POST", "/v1/rules/rules.yaml/rollback"),
        ("GET", "/v1/rules/rules.yaml/history"),
    ] {
        let refused = operator.send(method, path, "rules: []", &[("if-match", "*")]);
        assert_eq!(refused.status, 409, "{method} {path}: {}", refused.text);
        assert!(refused.text.contains("rules.yaml"), "{}", refused.text);
    }
    let name = operator.get("/v1/rules").json()["files"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!(operator.get(&format!("/v1/rules/{name}")).text, API);

    let over = json!({ "match": { "user": "big" }, "rule": "api", "limit": "3/h" });
    assert_eq!(operator.post("/v1/overrides", &over).status, 201);
    assert!((0..3).all(|_| operator.passes("big")) && !operator.passes("big"));
    let wrong = json!({ "match": { "user": "x" }, "rule": "nothing", "limit": "3/h" });
    assert_eq!(operator.post("/v1/overrides", &wrong).status, 422);
    let bundle = operator.get("/v1/rules/bundle").json();
    assert_eq!(bundle["data"]["overrides"][0]["rule"], "api");
    assert_eq!(bundle["files"][0]["text"], API);

    // The file goes on without asking: what no longer fits it is left out, and comes back.
    let before = operator.get("/readyz").json()["rules"]["version"].clone();
    server.write_rules("domain: shop\nrules: [{ name: other, per: user, limit: 1/h }]\n");
    let changed = |answer: &Answer| answer.json()["rules"]["version"] != before;
    let ready = eventually(|| operator.get("/readyz"), changed);
    assert_eq!(ready.status, 200);
    assert!(ready.text.contains("left_out") && ready.text.contains("there is no rule"));
    assert!(operator.passes("big") && !operator.passes("big"));
    let ban = json!({ "rule": "other", "key": "eve" });
    assert_eq!(operator.post("/v1/bans", &ban).status, 201, "an old trouble is no new one");
    assert_eq!(operator.delete("/v1/overrides/1").status, 200);
    assert!(!operator.get("/readyz").text.contains("left_out"));

    // One that is wrong is said, and the old rules go on.
    server.write_rules("rules: [");
    let wrong = |answer: &Answer| answer.text.contains("last_error");
    let ready = eventually(|| operator.get("/readyz"), wrong);
    assert_eq!(ready.status, 200, "{}", ready.text);
    assert!(!operator.passes("eve"));
    let metrics = operator.get("/metrics").text;
    assert!(!metrics.contains("tollgate_rules_reload_errors_total 0"), "{metrics}");
    server.stop();
}

#[test]
fn rules_of_another_service_come_with_their_data() {
    let service = start_with("", inside(None));
    let writer = Operator::of(&service);
    writer.send("DELETE", "/v1/rules/sample", "", &[("if-match", "*")]);
    assert_eq!(writer.send("PUT", "/v1/rules/shop", API, &[]).status, 201);
    let url = format!("http://{}/v1/rules/bundle", service.http());
    let token = Secret::new(service.admin_token()).unwrap();
    let server = start_with("", |config| {
        config.rules = Some(Origin::url(&url).unwrap().token(Some(token)));
    });
    let operator = Operator::of(&server);
    assert!(operator.passes("ann"));
    for (method, path) in [
        ("PUT", "/v1/rules/shop"),
        ("GET", "/v1/rules/bundle"),
        ("GET", "/v1/overrides"),
        ("POST", "/v1/bans"),
        ("PUT", "/v1/lists/vip"),
    ] {
        let refused = operator.send(method, path, "{}", &[]);
        assert_eq!(refused.status, 409, "{method} {path}: {}", refused.text);
        assert!(refused.text.contains(&url), "{}", refused.text);
    }
    assert_eq!(operator.get("/v1/rules").json()["origin"], url);
    assert_eq!(writer.post("/v1/bans", &json!({ "rule": "api", "key": "ann" })).status, 201);
    let banned = |answer: &Answer| !answer.json()["allowed"].as_bool().unwrap();
    let ask = || operator.post("/v1/check", &json!({ "attributes": { "user": "ann" } }));
    let refused = eventually(ask, banned).json();
    assert_eq!(refused["code"], 429);
    server.stop();
    service.stop();
}
