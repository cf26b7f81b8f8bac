//! Overrides and lists: data of a service that changes without its rules files.

use serde_json::json;

use crate::support::{TestService, service};

const RULES: &str = "\
domain: shop
lists: { office: [203.0.113.0/24] }
plans: { free: { api: 60/h }, pro: { api: 5k/h } }
attributes: [org]
rules:
  - { name: office, when: ip in lists.office, then: allow }
  - { name: api, per: org, limit: 100/h }
";

fn with_rules() -> (TestService, tempfile::TempDir) {
    let (service, folder) = service();
    service.put("shop", RULES);
    (service, folder)
}

#[test]
fn an_override_is_added_and_removed_without_changing_the_file() {
    let (service, _folder) = with_rules();
    let etag = service.get("/v1/rules/shop").etag();
    let what = json!({
        "match": { "org": "acme" }, "rule": "api", "limit": "50k/h", "until": "2027-01-01",
    });
    let added = service.send("POST", "/v1/overrides", &[], &what.to_string());
    assert_eq!((added.status, &added.json()["revision"]), (201, &json!(2)), "{added:?}");
    let id = added.json()["id"].as_u64().unwrap();

    let stored = service.get(&format!("/v1/overrides/{id}")).json();
    assert_eq!(stored["override"]["limit"], json!(["50k/h"]));
    assert_eq!(stored["who"], "admin");
    let bundle = service.get("/v1/rules/bundle").json();
    assert_eq!(bundle["data"]["overrides"][0]["match"], json!({ "org": "acme" }));
    assert_eq!(service.get("/v1/rules/shop").etag(), etag);

    let path = format!("/v1/overrides/{id}");
    assert_eq!(service.send("DELETE", &path, &[], "").status, 200);
    assert_eq!(service.send("DELETE", &path, &[], "").problem().0, 404);
    assert_eq!(service.get("/v1/overrides").json()["overrides"], json!([]));
    let audit = service.get(&format!("/v1/audit?subject=overrides/{id}")).json();
    let actions: Vec<_> =
        audit["entries"].as_array().unwrap().iter().map(|e| &e["action"]).collect();
    assert_eq!(actions, ["override.remove", "override.add"]);
    assert!(audit["entries"][0]["detail"].as_str().unwrap().contains("acme"));
    // Ids are never reused, because the audit refers to them.
    let next = service.send("POST", "/v1/overrides", &[], &what.to_string());
    assert_ne!(next.json()["id"], id);
}

#[test]
fn an_override_that_does_not_fit_the_rules_is_refused() {
    let (service, _folder) = with_rules();
    for wrong in [
        json!({ "match": { "org": "acme" }, "rule": "apo", "limit": "1/s" }),
        json!({ "match": { "org": "acme" }, "rule": "api", "limit": "1/m" }),
        json!({ "match": { "org": "acme" }, "plan": "gold" }),
        json!({ "match": { "org": "acme" }, "rule": "api", "limit": "1/s", "until": "soon" }),
        json!({ "match": { "org": "acme" }, "rule": "api", "limit": "1/s", "domain": "mail" }),
    ] {
        let refused = service.send("POST", "/v1/overrides", &[], &wrong.to_string());
        assert_eq!(refused.problem(), (422, "invalid-rules".into()), "{wrong}");
        assert!(
            refused.json()["findings"][0]["element"].as_str().unwrap().starts_with("overrides[0]")
        );
    }
    let misspelt = r#"{"match":{"org":"acme"},"rule":"api","limits":"1/s"}"#;
    assert_eq!(service.send("POST", "/v1/overrides", &[], misspelt).problem().0, 400);
    assert_eq!(service.get("/v1/rules").json()["revision"], 1);
}

#[test]
fn a_file_that_leaves_an_override_without_its_rule_is_refused() {
    let (service, _folder) = with_rules();
    let what = r#"{"match":{"org":"acme"},"rule":"api","limit":"5k/h"}"#;
    let id = service.send("POST", "/v1/overrides", &[], what).json()["id"].as_u64().unwrap();
    let renamed = RULES.replace("name: api", "name: calls");
    let any = [("if-match", "*")];
    let refused = service.send("PUT", "/v1/rules/shop", &any, &renamed);
    assert_eq!(refused.problem().0, 422);
    assert!(refused.text().contains("api"), "{}", refused.text());
    assert_eq!(service.send("DELETE", "/v1/rules/shop", &any, "").problem().0, 422);
    service.send("DELETE", &format!("/v1/overrides/{id}"), &[], "");
    assert_eq!(service.send("PUT", "/v1/rules/shop", &any, &renamed).status, 200);
}

#[test]
fn a_list_is_set_extended_reduced_and_removed() {
    let (service, _folder) = with_rules();
    let path = "/v1/lists/office";
    let entries = |list: &[&str]| json!({ "entries": list }).to_string();
    let one = entries(&["198.51.100.7"]);
    // Adding to a list that only the file defines would silently hide the file's entries.
    assert_eq!(service.send("POST", "/v1/lists/office/entries", &[], &one).problem().0, 404);

    let set = service.send("PUT", path, &[], &entries(&["203.0.113.0/24", "10.0.0.0/8"]));
    assert_eq!((set.status, &set.json()["entries"]), (201, &json!(2)));
    let added = service.send("POST", "/v1/lists/office/entries", &[], &one);
    assert_eq!((&added.json()["entries"], &added.json()["touched"]), (&json!(3), &json!(1)));
    let again = service.send("POST", "/v1/lists/office/entries", &[], &one);
    assert_eq!((&again.json()["changed"], again.etag()), (&json!(false), added.etag()));
    let removed =
        service.send("DELETE", "/v1/lists/office/entries", &[], &entries(&["10.0.0.0/8", "none"]));
    assert_eq!(removed.json()["touched"], 1);
    let list = service.get(path);
    assert_eq!(list.json()["entries"], json!(["203.0.113.0/24", "198.51.100.7"]));
    assert_eq!(list.etag(), removed.etag());

    let stale = [("if-match", &*added.etag())];
    assert_eq!(service.send("PUT", path, &stale, &one).problem(), (412, "stale".into()));
    let bundle = service.get("/v1/rules/bundle").json();
    assert_eq!(bundle["data"]["lists"][0]["name"], "office");
    assert_eq!(service.send("DELETE", path, &[], "").status, 200);
    assert_eq!(service.get(path).problem().0, 404);
    let audit = service.get("/v1/audit?subject=lists/office").json();
    let actions: Vec<_> =
        audit["entries"].as_array().unwrap().iter().map(|e| &e["action"]).collect();
    assert_eq!(actions, ["list.remove", "list.remove-entries", "list.add-entries", "list.set"]);
}

#[test]
fn an_unknown_list_and_an_invalid_entry_are_refused() {
    let (service, _folder) = with_rules();
    let entries = r#"{"entries":["10.0.0.0/8"]}"#;
    assert_eq!(service.send("PUT", "/v1/lists/ofice", &[], entries).problem().0, 422);
    let wrong = r#"{"entries":["10.0.0.0/99"]}"#;
    assert_eq!(service.send("PUT", "/v1/lists/office", &[], wrong).problem().0, 422);
    assert_eq!(service.get("/v1/lists").json()["lists"], json!([]));
}

#[test]
fn a_list_can_name_its_domain() {
    let (service, _folder) = with_rules();
    service
        .put("mail", "domain: mail\nlists: { office: [] }\nrules: [{ name: send, limit: 5/d }]\n");
    let entries = r#"{"entries":["10.0.0.0/8"]}"#;
    let named = service.send("PUT", "/v1/lists/office?domain=mail", &[], entries);
    assert_eq!(named.status, 201);
    let list = service.get("/v1/lists/office?domain=mail").json();
    assert_eq!(list["domain"], "mail");
    assert_eq!(service.get("/v1/lists/office?domain=shop").problem().0, 404);
    assert_eq!(
        service.get("/v1/audit?subject=lists/mail/office").json()["entries"][0]["action"],
        "list.set"
    );
}
