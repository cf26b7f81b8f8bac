//! Tokens of the admin API and their rights.

use tollgate_server::net::Bind;

use super::API;
use super::client::AdminClient;
use crate::support::{start, start_with};

const READER: &str = "reader-0123456789";
const WRITER: &str = "writer-0123456789";

#[test]
fn only_health_and_local_metrics_need_no_token() {
    let server = start(API);
    let anonymous = AdminClient::new(server.http(), None);
    let wrong_token = AdminClient::new(server.http(), Some("not-the-right-token"));
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(anonymous.get(path).status, 200, "{path}");
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
        assert_eq!(anonymous.get(path).status, 401, "{path}");
        assert_eq!(wrong_token.get(path).status, 401, "{path}");
        if !path.contains("follow") {
            assert_eq!(AdminClient::with_all_rights(&server).get(path).status, 200, "{path}");
        }
    }
    let body = serde_json::json!({ "rule": "api", "key": "ann" });
    for path in ["/v1/keys/peek", "/v1/keys/reset", "/v1/keys/topup", "/v1/simulate", "/v1/bans"] {
        assert_eq!(anonymous.post(path, &body).status, 401, "{path}");
    }
    server.stop();
}

#[test]
fn a_read_token_cannot_change_anything() {
    let tokens = format!("reader:{READER}:read\nwriter:{WRITER}");
    let server = start_with(API, |config| config.admin_tokens = Some(tokens.parse().unwrap()));
    assert_eq!(server.admin_token(), WRITER);
    let reader = AdminClient::new(server.http(), Some(READER));
    let named = serde_json::json!({ "rule": "api", "key": "ann" });
    assert_eq!(reader.get("/v1/top").status, 200);
    assert_eq!(reader.post("/v1/keys/peek", &named).status, 200);
    let simulation = serde_json::json!({ "requests": [] });
    assert_eq!(reader.post("/v1/simulate", &simulation).status, 403);
    assert_eq!(AdminClient::with_all_rights(&server).post("/v1/simulate", &simulation).status, 200);
    for path in ["/v1/keys/reset", "/v1/keys/topup", "/v1/bans", "/v1/overrides"] {
        assert_eq!(reader.post(path, &named).status, 403, "{path}");
    }
    assert_eq!(reader.delete("/v1/bans/1").status, 403);
    server.stop();
}

#[test]
fn a_separate_admin_address_removes_the_admin_api_from_the_http_door() {
    let server = start_with(API, |config| {
        config.admin = Some(Bind::plain("127.0.0.1:0".parse().unwrap()));
    });
    let token = server.admin_token();
    let separate = AdminClient::new(server.admin(), Some(&token));
    let shared = AdminClient::new(server.http(), Some(&token));
    for path in ["/v1/rules", "/v1/bans", "/v1/top", "/v1/audit"] {
        assert_eq!(separate.get(path).status, 200, "{path}");
        assert_eq!(shared.get(path).status, 404, "{path}");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!((shared.get(path).status, separate.get(path).status), (200, 200), "{path}");
    }
    assert_eq!(separate.get("/v1/nothing").status, 404);
    assert_eq!(AdminClient::new(server.admin(), None).get("/v1/top").status, 401);
    server.stop();
}

#[test]
fn generated_tokens_are_reused_and_private() {
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
    assert_eq!(AdminClient::with_all_rights(&server).get("/v1/audit").status, 200);
    server.stop();
}
