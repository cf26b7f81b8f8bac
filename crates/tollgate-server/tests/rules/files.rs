//! Rules files in a service: versions, preconditions, dry runs, history, rollback, audit.

use std::sync::Barrier;
use std::thread;

use serde_json::json;

use crate::support::{TestService, service, shop};

#[test]
fn changing_a_file_requires_its_current_version() {
    let (service, _folder) = service();
    let path = "/v1/rules/shop";
    assert_eq!(service.get(path).problem(), (404, "not-found".into()));
    let stale = service.send("PUT", path, &[("if-match", "\"1-a\"")], &shop("1/s"));
    assert_eq!(stale.problem(), (412, "stale".into()));

    let made = service.send("PUT", path, &[("if-none-match", "*")], &shop("1/s"));
    assert_eq!(made.status, 201);
    let first = made.etag();
    let body = made.json();
    assert_eq!((&body["version"], &body["revision"]), (&json!(1), &json!(1)));
    assert_eq!(body["rules"]["added"], json!(["api"]));
    let got = service.get(path);
    assert_eq!((got.text(), got.etag()), (shop("1/s"), first.clone()));
    let unchanged = service.send("GET", path, &[("if-none-match", &first)], "");
    assert_eq!((unchanged.status, unchanged.text()), (304, String::new()));

    let again = service.send("PUT", path, &[("if-none-match", "*")], &shop("2/s"));
    assert_eq!((again.problem().0, again.etag()), (412, first.clone()));
    let blind = service.send("PUT", path, &[], &shop("2/s"));
    assert_eq!((blind.problem().0, blind.etag()), (428, first.clone()));

    let replaced = service.send("PUT", path, &[("if-match", &first)], &shop("2/s"));
    assert_eq!((replaced.status, &replaced.json()["version"]), (200, &json!(2)));
    let second = replaced.etag();
    assert_ne!(first, second);
    let late = service.send("PUT", path, &[("if-match", &first)], &shop("3/s"));
    assert_eq!((late.problem().0, late.etag()), (412, second.clone()));
    assert_eq!(service.get(path).text(), shop("2/s"));

    assert_eq!(service.send("DELETE", path, &[], "").problem().0, 428);
    assert_eq!(service.send("DELETE", path, &[("if-match", &first)], "").problem().0, 412);
    assert_eq!(service.send("DELETE", path, &[("if-match", &second)], "").status, 200);
    assert_eq!(service.get(path).problem().0, 404);
    // Versions continue after a removal, so that no old ETag matches the new file.
    let recreated = service.send("PUT", path, &[], &shop("1/s"));
    assert_eq!((recreated.status, &recreated.json()["version"]), (201, &json!(4)));
    assert_ne!(recreated.etag(), first);
}

#[test]
fn writing_an_equal_text_changes_nothing() {
    let (service, _folder) = service();
    let etag = service.put("shop", &shop("1/s")).etag();
    let same = service.send("PUT", "/v1/rules/shop", &[("if-match", &etag)], &shop("1/s"));
    assert_eq!((same.status, same.etag()), (200, etag));
    assert_eq!((&same.json()["changed"], &same.json()["revision"]), (&json!(false), &json!(1)));
    assert_eq!(service.get("/v1/audit").json()["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn one_of_many_concurrent_writers_succeeds() {
    let (service, _folder) = service();
    const WRITERS: usize = 8;
    for round in 1..=5 {
        let etag = service.put("shop", &shop(&format!("{round}/s"))).etag();
        let before = service.get("/v1/rules").json()["revision"].as_u64().unwrap();
        let start = Barrier::new(WRITERS);
        let write = |writer: usize| {
            start.wait();
            let text = shop(&format!("{}/s", 1000 * round + writer));
            service.send("PUT", "/v1/rules/shop", &[("if-match", &etag)], &text).status
        };
        let mut statuses: Vec<u16> = thread::scope(|scope| {
            let write = &write;
            let writers: Vec<_> = (0..WRITERS).map(|w| scope.spawn(move || write(w))).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        statuses.sort_unstable();
        assert_eq!(statuses[0], 200);
        assert!(statuses[1..].iter().all(|status| *status == 412), "{statuses:?}");
        let after = service.get("/v1/rules").json()["revision"].as_u64().unwrap();
        assert_eq!(after, before + 1);
    }
}

#[test]
fn one_of_many_concurrent_creators_succeeds() {
    let (service, _folder) = service();
    let create = || {
        let headers = [("if-none-match", "*")];
        service.send("PUT", "/v1/rules/shop", &headers, &shop("1/s")).status
    };
    let mut statuses: Vec<u16> = thread::scope(|scope| {
        let creators: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
        creators.into_iter().map(|creator| creator.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 412, 412, 412, 412, 412, 412, 412]);
}

/// Returns all data of a service as text.
fn state(service: &TestService) -> String {
    let paths = ["/v1/rules", "/v1/audit", "/v1/overrides", "/v1/lists", "/v1/rules/bundle"];
    paths.map(|path| service.get(path).text()).join("\n")
}

#[test]
fn a_dry_run_reports_changes_and_writes_nothing() {
    let (service, _folder) = service();
    service.put(
        "shop",
        "domain: shop\nlists: { office: [] }\nrules:\n  - { name: api, limit: 1/s }\n",
    );
    let before = state(&service);

    let text = "domain: shop\nlists: { office: [] }\nrules:\n  - { name: api, limit: 2/s }\n  - { name: b, limit: 9/s }\n";
    let put = service.send("PUT", "/v1/rules/shop?dry_run=true", &[], text);
    assert_eq!((put.status, put.header("etag")), (200, None));
    let body = put.json();
    assert_eq!((&body["dry_run"], &body["changed"]), (&json!(true), &json!(true)));
    assert_eq!(body["rules"]["changed"], json!(["api"]));
    assert_eq!(body["rules"]["added"], json!(["b"]));
    let diff = body["diff"].as_str().unwrap();
    assert!(
        diff.contains("-  - { name: api, limit: 1/s }\n+  - { name: api, limit: 2/s }\n"),
        "{diff}"
    );

    // A dry run reports the errors of a change: an invalid text, an outdated version.
    let wrong = service.send("PUT", "/v1/rules/shop?dry_run=true", &[], "rules: [{ nmae: x }]");
    assert_eq!(wrong.problem(), (422, "invalid-rules".into()));
    let stale = [("if-match", "\"9-x\"")];
    assert_eq!(service.send("PUT", "/v1/rules/shop?dry_run=true", &stale, text).problem().0, 412);

    let all = [("if-match", "*")];
    assert_eq!(service.send("DELETE", "/v1/rules/shop?dry_run=true", &all, "").status, 200);
    let entry = r#"{"match":{"ip":"192.0.2.1"},"rule":"api","limit":"5/s"}"#;
    assert_eq!(service.send("POST", "/v1/overrides?dry_run=true", &[], entry).status, 200);
    let entries = r#"{"entries":["10.0.0.0/8"]}"#;
    assert_eq!(service.send("PUT", "/v1/lists/office?dry_run=true", &[], entries).status, 200);
    assert_eq!(state(&service), before);
}

#[test]
fn invalid_rules_are_refused_with_all_findings() {
    let (service, _folder) = service();
    let etag = service.put("shop", &shop("1/s")).etag();
    let before = state(&service);
    let text = "domain: shop\nrules:\n  - { nmae: api, limit: 10/m }\n";
    let refused = service.send("PUT", "/v1/rules/shop", &[("if-match", &etag)], text);
    assert_eq!(refused.problem(), (422, "invalid-rules".into()));
    let body = refused.json();
    let findings = body["findings"].as_array().unwrap();
    assert!(findings.len() >= 2, "{body}");
    for finding in findings {
        assert_eq!((&finding["file"], &finding["line"]), (&json!("shop"), &json!(3)));
        assert_eq!(finding["snippet"], "  - { nmae: api, limit: 10/m }");
        assert!(finding["column"].as_u64().unwrap() > 1);
        assert!(!finding["code"].as_str().unwrap().is_empty());
    }
    assert!(body["rendered"].as_str().unwrap().contains("shop:3:"));
    assert_eq!(state(&service), before);
}

#[test]
fn conflicting_files_are_refused() {
    let (service, _folder) = service();
    service.put("shop", &shop("1/s"));
    let twice = service.send("PUT", "/v1/rules/other", &[], &shop("2/s"));
    assert_eq!(twice.problem(), (422, "invalid-rules".into()));
    assert!(twice.text().contains("duplicate-domain"), "{}", twice.text());
    let mail = "domain: mail\nrules: [{ name: send, limit: 5/d }]\n";
    assert_eq!(service.send("PUT", "/v1/rules/other", &[], mail).status, 201);
}

#[test]
fn a_rollback_makes_a_new_version() {
    let (service, _folder) = service();
    for limit in ["1/s", "2/s", "3/s"] {
        service.put("shop", &shop(limit));
    }
    assert_eq!(service.get("/v1/rules/shop/versions/1").text(), shop("1/s"));
    assert_eq!(service.get("/v1/rules/shop/versions/9").problem().0, 404);
    assert_eq!(service.get("/v1/rules/shop/versions/x").problem().0, 400);

    let path = "/v1/rules/shop/rollback";
    let dry = service.send("POST", &format!("{path}?dry_run=true"), &[], r#"{"to":1}"#);
    assert!(dry.json()["diff"].as_str().unwrap().contains("limit: 1/s"));
    let back = service.send("POST", path, &[], r#"{"to":1}"#);
    assert_eq!((back.status, &back.json()["version"]), (200, &json!(4)));
    assert_eq!(service.get("/v1/rules/shop").text(), shop("1/s"));
    assert_eq!(service.get("/v1/rules/shop").etag(), back.etag());
    assert_eq!(service.send("POST", path, &[], r#"{"to":9}"#).problem().0, 404);
    assert_eq!(service.send("POST", path, &[], r#"{"too":1}"#).problem().0, 400);
    let stale = [("if-match", "\"3-x\"")];
    assert_eq!(service.send("POST", path, &stale, r#"{"to":2}"#).problem().0, 412);

    let history = service.get("/v1/rules/shop/history").json();
    let versions = history["versions"].as_array().unwrap();
    let numbers: Vec<_> = versions.iter().map(|version| version["version"].as_u64()).collect();
    assert_eq!(numbers, [Some(4), Some(3), Some(2), Some(1)]);
    assert_eq!(versions[0]["etag"], back.etag());
    assert_eq!(versions[0]["who"], "admin");
}

#[test]
fn a_rollback_restores_a_removed_file() {
    let (service, _folder) = service();
    service.put("shop", &shop("1/s"));
    service.send("DELETE", "/v1/rules/shop", &[("if-match", "*")], "");
    let history = service.get("/v1/rules/shop/history").json();
    assert_eq!(history["versions"][0]["removed"], true);
    let back = service.send("POST", "/v1/rules/shop/rollback", &[], r#"{"to":1}"#);
    assert_eq!((back.status, &back.json()["version"]), (201, &json!(3)));
    assert_eq!(service.get("/v1/rules/shop").text(), shop("1/s"));
}

#[test]
fn the_audit_lists_users_and_changes_in_pages() {
    let (service, _folder) = service();
    let path = "/v1/rules/shop";
    let id = [("x-request-id", "deploy-7")];
    let etag = service.send("PUT", path, &id, &shop("1/s")).etag();
    assert_eq!(service.send("PUT", path, &[("if-match", "\"0\"")], &shop("2/s")).status, 412);
    service.send("PUT", path, &[("if-match", &etag)], &shop("2/s"));
    service.send("DELETE", path, &[("if-match", "*")], "");

    let page = service.get("/v1/audit?limit=2").json();
    let entries = page["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "refused changes are not listed");
    assert_eq!(entries[0]["action"], "rules.remove");
    let next = page["next_before"].as_u64().unwrap();
    let page = service.get(&format!("/v1/audit?limit=2&before={next}")).json();
    assert_eq!(page["next_before"], json!(null));
    let first = &page["entries"][0];
    for (field, value) in [
        ("who", json!("admin")),
        ("action", json!("rules.put")),
        ("subject", json!("rules/shop")),
        ("from_version", json!(null)),
        ("to_version", json!(1)),
        ("revision", json!(1)),
        ("request_id", json!("deploy-7")),
        ("detail", json!("+api domain")),
    ] {
        assert_eq!(first[field], value, "{field}");
    }
    assert!(first["at"].as_str().unwrap().ends_with('Z'));
    let other = service.get("/v1/audit?subject=rules/none").json();
    assert_eq!(other["entries"], json!([]));
}

#[test]
fn a_restart_keeps_all_data() {
    let folder = tempfile::tempdir().unwrap();
    let service = TestService::start(folder.path());
    service.put("shop", &shop("1/s"));
    service.put("shop", &shop("2/s"));
    let before = state(&service);
    drop(service);
    let service = TestService::start(folder.path());
    assert_eq!(state(&service), before);
    assert_eq!(service.get("/v1/rules/shop/versions/1").text(), shop("1/s"));
}
