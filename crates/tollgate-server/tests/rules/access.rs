//! Who may do what.

use tollgate_server::rules_service::{Options, RulesService, ServiceError};

use crate::support::{Service, ask, service, shop};

#[test]
fn nothing_is_said_without_a_token() {
    let (service, _folder) = service();
    let wrong = "0123456789abcdef".parse().unwrap();
    for path in ["/v1/rules", "/v1/rules/bundle", "/v1/audit", "/v1/nowhere", "/"] {
        for token in [None, Some(&wrong)] {
            let refused = ask(&service.url(path), token, "GET", &[], "");
            assert_eq!(refused.problem(), (401, "unauthorized".into()), "{path}");
            assert_eq!(refused.header("www-authenticate").as_deref(), Some("Bearer"));
        }
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(ask(&service.url(path), None, "GET", &[], "").status, 200);
    }
}

#[test]
fn a_token_to_read_does_not_write() {
    let (service, _folder) = service();
    service.put("shop", &shop("1/s"));
    let read = |method: &str, path: &str| {
        ask(&service.url(path), Some(&service.read), method, &[("if-match", "*")], &shop("2/s"))
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
fn a_proxy_says_who_is_behind_it_and_nobody_else_may() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::new(folder.path());
    let tokens = "ann:0123456789abcdef,door:fedcba9876543210:proxy,r:00112233445566778899:read";
    options.tokens = Some(tokens.parse().unwrap());
    let service = Service::with(options, "127.0.0.1:0".parse().unwrap());
    let door = "fedcba9876543210".parse().unwrap();
    let put = |headers: &[(&str, &str)]| {
        let url = service.url("/v1/rules/shop");
        ask(&url, Some(&door), "PUT", headers, &shop("1/s"))
    };
    assert_eq!(put(&[]).problem().0, 400);
    assert_eq!(put(&[("x-tollgate-user", "a b")]).problem().0, 400);
    assert_eq!(put(&[("x-tollgate-user", "bob@example.org")]).status, 201);
    // Ann's own token says who she is, whatever she claims.
    let claims = [("x-tollgate-user", "bob@example.org"), ("if-match", "*")];
    assert_eq!(service.ask("PUT", "/v1/rules/shop", &claims, &shop("2/s")).status, 200);
    let audit = service.get("/v1/audit").json();
    assert_eq!(audit["entries"][1]["who"], "bob@example.org via door");
    assert_eq!(audit["entries"][0]["who"], "ann");
}

#[test]
fn two_services_do_not_share_a_folder() {
    let (_service, folder) = service();
    let second = RulesService::open(Options::new(folder.path()));
    assert!(matches!(second, Err(ServiceError::InUse(_))), "{second:?}");
}
