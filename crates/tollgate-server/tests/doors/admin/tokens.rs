//! Who may do what, and where.

use tollgate_server::net::Bind;

use super::API;
use super::client::Operator;
use crate::support::{start, start_with};

const READER: &str = "reader-0123456789";
const WRITER: &str = "writer-0123456789";

#[test]
fn without_a_token_nothing_but_health_and_local_metrics_is_told() {
    let server = start(API);
    let nobody = Operator::new(server.http(), None);
    let guesser = Operator::new(server.http(), Some("not-the-right-token"));
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(nobody.get(path).status, 200, "{path}");
    }
    for path in [
        "/v1/rules",
        "/v1/overrides",
        "/v1/lists",
        "/v1/bans",
        "/v1/audit",
        "/v1/top",
        "/v1/decisions",
        "/v1/decisions?follow",
    ] {
        assert_eq!(nobody.get(path).status, 401, "{path}");
        assert_eq!(guesser.get(path).status, 401, "{path}");
        if !path.contains("follow") {
            assert_eq!(Operator::of(&server).get(path).status, 200, "{path}");
        }
    }
    let body = serde_json::json!({ "rule": "api", "key": "ann" });
    for path in ["/v1/keys/peek", "/v1/keys/reset", "/v1/keys/topup", "/v1/simulate", "/v1/bans"] {
        assert_eq!(nobody.post(path, &body).status, 401, "{path}");
    }
    server.stop();
}

#[test]
fn who_may_only_read_changes_nothing() {
    let tokens = format!("reader:{READER}:read\nwriter:{WRITER}");
    let server = start_with(API, |config| config.admin_tokens = Some(tokens.parse().unwrap()));
    assert_eq!(server.admin_token(), WRITER);
    let reader = Operator::new(server.http(), Some(READER));
    let named = serde_json::json!({ "rule": "api", "key": "ann" });
    assert_eq!(reader.get("/v1/top").status, 200);
    assert_eq!(reader.post("/v1/keys/peek", &named).status, 200);
    assert_eq!(reader.post("/v1/simulate", &serde_json::json!({ "requests": [] })).status, 200);
    for path in ["/v1/keys/reset", "/v1/keys/topup", "/v1/bans", "/v1/overrides"] {
        assert_eq!(reader.post(path, &named).status, 403, "{path}");
    }
    assert_eq!(reader.delete("/v1/bans/1").status, 403);
    server.stop();
}

#[test]
fn an_address_of_its_own_takes_the_admin_api_off_the_http_door() {
    let server = start_with(API, |config| {
        config.admin = Some(Bind::plain("127.0.0.1:0".parse().unwrap()));
    });
    let token = server.admin_token();
    let there = Operator::new(server.admin(), Some(&token));
    let here = Operator::new(server.http(), Some(&token));
    for path in ["/v1/rules", "/v1/bans", "/v1/top", "/v1/audit"] {
        assert_eq!(there.get(path).status, 200, "{path}");
        assert_eq!(here.get(path).status, 404, "{path}");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!((here.get(path).status, there.get(path).status), (200, 200), "{path}");
    }
    assert_eq!(there.get("/v1/nothing").status, 404);
    assert_eq!(Operator::new(server.admin(), None).get("/v1/top").status, 401);
    server.stop();
}

#[test]
fn tokens_are_made_once_and_kept_to_oneself() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let start = || start_with(API, |config| config.data = Some(data.clone()));
    let server = start();
    let token = server.admin_token();
    for (path, mode) in [(data.clone(), 0o700), (data.join("tokens"), 0o600)] {
        let permissions = std::fs::metadata(&path).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{}", path.display());
    }
    server.stop();
    let server = start();
    assert_eq!(server.admin_token(), token);
    assert_eq!(Operator::of(&server).get("/v1/audit").status, 200);
    server.stop();
}
