//! Tokens of the rules service and their rights.

use tollgate_server::rules_service::{RulesService, RulesServiceOptions, ServiceError};

use crate::support::{TestService, send, service, shop};

#[test]
fn every_call_needs_a_token() {
    let (service, _folder) = service();
    let wrong = "0123456789abcdef".parse().unwrap();
    for path in ["/v1/rules", "/v1/rules/bundle", "/v1/audit", "/v1/nowhere", "/"] {
        for (token, code, challenge) in [
            (None, "unauthorized", "Bearer"),
            (Some(&wrong), "invalid-token", "Bearer error=\"invalid_token\""),
        ] {
            let refused = send(&service.url(path), token, "GET", &[], "");
            assert_eq!(refused.problem(), (401, code.into()), "{path}");
            assert_eq!(refused.header("www-authenticate").as_deref(), Some(challenge));
        }
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(send(&service.url(path), None, "GET", &[], "").status, 200);
    }
}

#[test]
fn a_read_token_cannot_write() {
    let (service, _folder) = service();
    service.put("shop", &shop("1/s"));
    let read = |method: &str, path: &str| {
        send(&service.url(path), Some(&service.read), method, &[("if-match", "*")], &shop("2/s"))
    };
    assert_eq!(read("GET", "/v1/rules/bundle").status, 200);
    assert_eq!(read("GET", "/v1/audit").status, 200);
    for (method, path) in [
        ("PUT", "/v1/rules/shop"),
        ("DELETE", "/v1/rules/shop"),
        ("POST", "/v1/rules/shop/rollback"),
        ("POST", "/v1/overrides"),
        ("PUT", "/v1/lists/x"),
        ("PUT", "/v1/rules/shop?dry_run=true"),
    ] {
        assert_eq!(read(method, path).problem(), (403, "forbidden".into()), "{method} {path}");
    }
    assert_eq!(service.get("/v1/rules/shop").text(), shop("1/s"));
}

#[test]
fn only_a_proxy_token_can_name_another_user() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = RulesServiceOptions::new(folder.path());
    let tokens = "ann:0123456789abcdef,door:fedcba9876543210:proxy,r:00112233445566778899:read";
    options.tokens = Some(tokens.parse().unwrap());
    let service = TestService::with(options, "127.0.0.1:0".parse().unwrap());
    let door = "fedcba9876543210".parse().unwrap();
    let put = |headers: &[(&str, &str)]| {
        let url = service.url("/v1/rules/shop");
        send(&url, Some(&door), "PUT", headers, &shop("1/s"))
    };
    assert_eq!(put(&[]).problem().0, 400);
    assert_eq!(put(&[("x-tollgate-user", "a b")]).problem().0, 400);
    assert_eq!(put(&[("x-tollgate-user", "bob@example.org")]).status, 201);
    // The header is ignored with the token of a user.
    let claims = [("x-tollgate-user", "bob@example.org"), ("if-match", "*")];
    assert_eq!(service.send("PUT", "/v1/rules/shop", &claims, &shop("2/s")).status, 200);
    let audit = service.get("/v1/audit").json();
    assert_eq!(audit["entries"][1]["who"], "bob@example.org via door");
    assert_eq!(audit["entries"][0]["who"], "ann");
}

#[test]
fn two_services_cannot_share_a_folder() {
    let (_service, folder) = service();
    let second = RulesService::open(RulesServiceOptions::new(folder.path()));
    assert!(matches!(second, Err(ServiceError::InUse(_))), "{second:?}");
}
