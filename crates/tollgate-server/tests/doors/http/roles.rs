//! Roles of tokens: who may decide, and who may change counters.

use tollgate_server::access::Tokens;

use super::client::{HttpClient, HttpResponse};
use crate::support::{start, start_with};

const RULES: &str =
    "domain: shop\nattributes: [user]\nrules: [{ name: api, per: user, limit: 100/h }]\n";
const LIMIT: &str = r#"{"key":"k","limit":"1/h"}"#;

fn call(client: &mut HttpClient, path: &str, token: Option<&str>) -> HttpResponse {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    client.send_with("POST", path, &headers, LIMIT)
}

#[test]
fn a_reset_and_a_refund_need_the_role_write() {
    let server = start(RULES);
    let mut client = HttpClient::connect(server.http());
    assert_eq!(call(&mut client, "/v1/limit", None).json()["allowed"], true);
    for path in ["/v1/reset", "/v1/refund"] {
        let refused = call(&mut client, path, None);
        assert_eq!(refused.status, 401, "{path}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("role `write`") && detail.contains("data folder"), "{detail}");
        let wrong = call(&mut client, path, Some("not-the-right-token"));
        assert_eq!((wrong.status, &wrong.json()["code"]), (401, &"invalid-token".into()), "{path}");
        assert!(wrong.json()["detail"].as_str().unwrap().contains("the token is wrong"));
        assert_eq!(call(&mut client, "/v1/limit", None).json()["allowed"], false, "{path}");
    }
    let token = server.admin_token();
    for path in ["/v1/reset", "/v1/refund"] {
        assert_eq!(call(&mut client, path, Some(&token)).status, 200, "{path}");
        assert_eq!(call(&mut client, "/v1/limit", None).json()["allowed"], true, "{path}");
    }
}

#[test]
fn the_roles_of_data_tokens_are_enforced() {
    let tokens = "app:decide-0123456789\nboard:read-0123456789ab:read\nops:write-0123456789a:write";
    let server = start_with(RULES, |config| config.data_tokens = Some(tokens.parse().unwrap()));
    let mut client = HttpClient::connect(server.http());
    let paths = ["/v1/limit", "/v1/peek", "/v1/reset", "/v1/refund"];
    let admin = server.admin_token();
    for (token, expected) in [
        (None, [401, 401, 401, 401]),
        (Some("decide-0123456789"), [200, 200, 403, 403]),
        (Some("read-0123456789ab"), [403, 200, 403, 403]),
        (Some("write-0123456789a"), [200, 200, 200, 200]),
        (Some(admin.as_str()), [200, 200, 200, 200]),
    ] {
        for (path, expected) in paths.iter().zip(expected) {
            assert_eq!(call(&mut client, path, token).status, expected, "{token:?} {path}");
        }
    }
    // Tokens for decisions are none of the admin API.
    let top = [("Authorization", "Bearer write-0123456789a")];
    assert_eq!(client.send_with("GET", "/v1/top", &top, "").status, 401);
    let refund = r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"b"}],"isNegativeHits":true}]}"#;
    for (token, expected) in [("decide-0123456789", 403), ("write-0123456789a", 200)] {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        let answer = client.send_with("POST", "/json", &headers, refund);
        assert_eq!(answer.status, expected, "{answer:?}");
    }
}

#[test]
fn a_reload_replaces_tokens_and_keeps_the_old_ones_if_the_file_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write("app:first-0123456789");
    let tokens = Tokens::read(&path).unwrap();
    let data = folder.path().join("data");
    let server = start_with(RULES, |config| {
        config.data_tokens = Some(tokens);
        config.data = Some(data.clone());
    });
    let mut client = HttpClient::connect(server.http());
    let (first, second) = (Some("first-0123456789"), Some("second-0123456789"));
    assert_eq!(call(&mut client, "/v1/limit", first).status, 200);
    write("app:short");
    server.reload();
    assert_eq!(call(&mut client, "/v1/limit", first).status, 200, "the old tokens stay");
    write("app:second-0123456789");
    server.reload();
    assert_eq!(call(&mut client, "/v1/limit", first).status, 401, "on the same connection");
    assert_eq!(call(&mut client, "/v1/limit", second).status, 200);

    let old = server.admin_token();
    std::fs::write(data.join("tokens"), "admin:another-0123456789").unwrap();
    server.reload();
    assert_eq!(server.admin_token(), "another-0123456789");
    assert_eq!(call(&mut client, "/v1/reset", Some(&old)).status, 401);
    assert_eq!(call(&mut client, "/v1/reset", Some("another-0123456789")).status, 200);
    let top = |client: &mut HttpClient, token: &str| {
        let bearer = format!("Bearer {token}");
        client.send_with("GET", "/v1/top", &[("Authorization", &bearer)], "").status
    };
    assert_eq!(top(&mut client, &old), 401);
    assert_eq!(top(&mut client, "another-0123456789"), 200);
}
