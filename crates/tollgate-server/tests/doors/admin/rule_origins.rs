//! Rules from the built-in service, from a file and from another service.

use std::time::Duration;

use serde_json::json;
use tollgate_server::Config;
use tollgate_server::secret::Secret;
use tollgate_server::sources::Origin;

use super::API;
use super::client::{AdminClient, AdminResponse};
use crate::support::{DEADLINE, start_with};

/// Repeats a request until its response meets the condition.
fn eventually(
    send: impl Fn() -> AdminResponse,
    is_met: impl Fn(&AdminResponse) -> bool,
) -> AdminResponse {
    for _ in 0..DEADLINE.as_millis() / 10 {
        let response = send();
        if is_met(&response) {
            return response;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("not in time: {:?}", send());
}

fn built_in_service(data: Option<&std::path::Path>) -> impl FnOnce(&mut Config) {
    let data = data.map(std::path::Path::to_owned);
    move |config| {
        config.rules = None;
        config.data = data;
    }
}

#[test]
fn a_new_service_has_sample_rules_and_applies_changes_at_once() {
    let server = start_with("", built_in_service(None));
    let admin = AdminClient::with_all_rights(&server);
    let files = admin.get("/v1/rules").json();
    assert_eq!(files["files"][0]["name"], "sample");
    assert_eq!(admin.get("/readyz").json()["rules"]["count"], 2);

    let made = admin.send("PUT", "/v1/rules/shop", API, &[]);
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(admin.delete("/v1/rules/sample").status, 428, "If-Match is needed");
    let removed = admin.send("DELETE", "/v1/rules/sample", "", &[("if-match", "*")]);
    assert_eq!(removed.status, 200, "{}", removed.text);
    // The service responds only after the rules are active, so no wait is needed.
    assert!(admin.passes("ann") && admin.passes("ann") && !admin.passes("ann"));

    let dry = admin.send("PUT", "/v1/rules/shop?dry_run=true", "rules: [", &[]);
    assert_eq!(dry.status, 422);
    let none = admin.send("DELETE", "/v1/rules/shop", "", &[("if-match", "*")]);
    assert_eq!(none.status, 200, "{}", none.text);
    let unhealthy = admin.get("/healthcheck");
    assert_eq!((unhealthy.status, unhealthy.text.as_str()), (500, ""), "as Envoy's own service");
    let unready = admin.get("/readyz");
    assert_eq!((unready.status, &unready.json()["why"]), (503, &json!("there are no rules")));
    server.stop();
}

#[test]
fn a_restart_keeps_rules_overrides_lists_and_bans() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "\
domain: shop
lists: { vip: [] }
attributes: [user]
rules:
  - { name: vip, when: user in lists.vip, then: allow }
  - { name: api, per: user, limit: 2/h }
";
    let server = start_with("", built_in_service(Some(folder.path())));
    let admin = AdminClient::with_all_rights(&server);
    let headers = [("if-match", "*")];
    admin.send("DELETE", "/v1/rules/sample", "", &headers);
    assert_eq!(admin.send("PUT", "/v1/rules/shop", rules, &[]).status, 201);
    let over = json!({ "match": { "user": "big" }, "rule": "api", "limit": "4/h" });
    assert_eq!(admin.post("/v1/overrides", &over).status, 201);
    let ban = json!({ "rule": "api", "key": "mallory", "for": "1h", "reason": "scraping" });
    assert_eq!(admin.post("/v1/bans", &ban).status, 201);
    let list = admin.send("PUT", "/v1/lists/vip", r#"{"entries":["ann"]}"#, &[]);
    assert_eq!(list.status, 201, "{}", list.text);
    server.stop();

    let server = start_with("", built_in_service(Some(folder.path())));
    let admin = AdminClient::with_all_rights(&server);
    assert!((0..5).all(|_| admin.passes("ann")));
    assert!((0..4).all(|_| admin.passes("big")) && !admin.passes("big"));
    assert!(!admin.passes("mallory"));
    assert_eq!(admin.get("/v1/bans").json()["bans"][0]["reason"], "scraping");
    let audit = admin.get("/v1/audit").json();
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
fn rules_of_a_file_are_read_only_but_data_can_change() {
    let server = start_with(API, |_| {});
    let admin = AdminClient::with_all_rights(&server);
    for (method, path) in [
        ("PUT", "/v1/rules/rules.yaml"),
        ("DELETE", "/v1/rules/rules.yaml"),
        ("POST", "/v1/rules/rules.yaml/rollback"),
        ("GET", "/v1/rules/rules.yaml/history"),
    ] {
        let refused = admin.send(method, path, "rules: []", &[("if-match", "*")]);
        assert_eq!(refused.status, 409, "{method} {path}: {}", refused.text);
        assert!(refused.text.contains("rules.yaml"), "{}", refused.text);
    }
    let name = admin.get("/v1/rules").json()["files"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!(admin.get(&format!("/v1/rules/{name}")).text, API);

    let over = json!({ "match": { "user": "big" }, "rule": "api", "limit": "3/h" });
    assert_eq!(admin.post("/v1/overrides", &over).status, 201);
    assert!((0..3).all(|_| admin.passes("big")) && !admin.passes("big"));
    let wrong = json!({ "match": { "user": "x" }, "rule": "nothing", "limit": "3/h" });
    assert_eq!(admin.post("/v1/overrides", &wrong).status, 422);
    let bundle = admin.get("/v1/rules/bundle").json();
    assert_eq!(bundle["data"]["overrides"][0]["rule"], "api");
    assert_eq!(bundle["files"][0]["text"], API);

    // The file changes regardless of the data; an override without its rule is left out.
    let before = admin.get("/readyz").json()["rules"]["version"].clone();
    server.write_rules(
        "domain: shop\nattributes: [user]\nrules: [{ name: other, per: user, limit: 1/h }]\n",
    );
    let changed = |response: &AdminResponse| response.json()["rules"]["version"] != before;
    let ready = eventually(|| admin.get("/readyz"), changed);
    assert_eq!(ready.status, 200);
    assert!(ready.text.contains("left_out") && ready.text.contains("there is no rule"));
    assert!(admin.passes("big") && !admin.passes("big"));
    let ban = json!({ "rule": "other", "key": "eve" });
    assert_eq!(
        admin.post("/v1/bans", &ban).status,
        201,
        "an override that was left out before does not block a change"
    );
    assert_eq!(admin.delete("/v1/overrides/1").status, 200);
    assert!(!admin.get("/readyz").text.contains("left_out"));

    // An invalid file is reported, and the old rules stay active.
    server.write_rules("rules: [");
    let wrong = |response: &AdminResponse| response.text.contains("last_error");
    let ready = eventually(|| admin.get("/readyz"), wrong);
    assert_eq!(ready.status, 200, "{}", ready.text);
    assert!(!admin.passes("eve"));
    let metrics = admin.get("/metrics").text;
    assert!(!metrics.contains("tollgate_rules_reload_errors_total 0"), "{metrics}");
    server.stop();
}

#[test]
fn rules_of_another_service_include_its_data() {
    let service = start_with("", built_in_service(None));
    let writer = AdminClient::with_all_rights(&service);
    writer.send("DELETE", "/v1/rules/sample", "", &[("if-match", "*")]);
    assert_eq!(writer.send("PUT", "/v1/rules/shop", API, &[]).status, 201);
    let url = format!("http://{}/v1/rules/bundle", service.http());
    let token = Secret::new(service.admin_token()).unwrap();
    let server = start_with("", |config| {
        config.rules = Some(Origin::url(&url).unwrap().token(Some(token)));
    });
    let admin = AdminClient::with_all_rights(&server);
    assert!(admin.passes("ann"));
    for (method, path) in [
        ("PUT", "/v1/rules/shop"),
        ("GET", "/v1/rules/bundle"),
        ("GET", "/v1/overrides"),
        ("POST", "/v1/bans"),
        ("PUT", "/v1/lists/vip"),
    ] {
        let refused = admin.send(method, path, "{}", &[]);
        assert_eq!(refused.status, 409, "{method} {path}: {}", refused.text);
        assert!(refused.text.contains(&url), "{}", refused.text);
    }
    assert_eq!(admin.get("/v1/rules").json()["origin"], url);
    assert_eq!(writer.post("/v1/bans", &json!({ "rule": "api", "key": "ann" })).status, 201);
    let banned = |response: &AdminResponse| !response.json()["allowed"].as_bool().unwrap();
    let check = || admin.post("/v1/check", &json!({ "attributes": { "user": "ann" } }));
    let refused = eventually(check, banned).json();
    assert_eq!(refused["code"], 429);
    server.stop();
    service.stop();
}
