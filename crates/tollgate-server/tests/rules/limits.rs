//! Invalid, slow and excessive requests, and a full disk.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollgate_server::rules_service::RulesServiceOptions;

use crate::support::{DEADLINE, TestService, service, shop};

#[test]
fn every_error_is_a_problem_document() {
    let (service, _folder) = service();
    let huge = format!("# {}\n{}", "x".repeat(4 << 20), shop("1/s"));
    for (method, path, body, code) in [
        ("GET", "/v1/nowhere", "", (404, "not-found")),
        ("PATCH", "/v1/rules/shop", "", (405, "method-not-allowed")),
        ("PUT", "/v1/rules/shop", &*huge, (413, "too-large")),
        ("PUT", "/v1/rules/shop?dryrun=true", "", (400, "bad-request")),
        ("PUT", "/v1/rules/shop?dry_run=yes", "", (400, "bad-request")),
        ("PUT", "/v1/rules/a%20b", &shop("1/s"), (400, "bad-request")),
        ("PUT", "/v1/rules/..", &shop("1/s"), (400, "bad-request")),
        ("PUT", "/v1/rules/%ff", &shop("1/s"), (400, "bad-request")),
        ("PUT", "/v1/rules/shop", "\u{0}", (422, "invalid-rules")),
        ("GET", "/v1/audit?limit=many", "", (400, "bad-request")),
        ("POST", "/v1/overrides", "{", (400, "bad-request")),
        ("GET", "/v1/overrides/18446744073709551615", "", (400, "bad-request")),
        ("GET", "/v1/overrides/x", "", (400, "bad-request")),
        ("PUT", "/v1/lists/x", "[]", (400, "bad-request")),
        ("GET", "/v1/rules/bundle?wait=long", "", (400, "bad-request")),
    ] {
        let (status, name) = service.send(method, path, &[], body).problem();
        assert_eq!((status, &*name), code, "{method} {path}");
    }
    assert_eq!(service.get("/v1/rules").json()["revision"], 0);
}

#[test]
fn a_response_has_the_id_of_its_request() {
    let (service, _folder) = service();
    let id = |given: &str| {
        service.send("GET", "/v1/rules", &[("x-request-id", given)], "").header("x-request-id")
    };
    assert_eq!(id("deploy-7").as_deref(), Some("deploy-7"));
    assert_ne!(id("with space").as_deref(), Some("with space"));
    assert_ne!(id(&"x".repeat(1000)).unwrap().len(), 1000);
}

#[test]
fn incomplete_requests_time_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = RulesServiceOptions::new(folder.path());
    options.header_timeout = Duration::from_millis(200);
    options.request_timeout = Duration::from_millis(500);
    let service = TestService::with(options, "127.0.0.1:0".parse().unwrap());
    let token = service.write.reveal();
    let body = format!(
        "PUT /v1/rules/shop HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-length: 1000\r\n\r\nrules:"
    );
    for half in ["", "GET /v1/rules HTTP/1.1\r\nhost: ", &body] {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(half.as_bytes()).unwrap();
        let mut response = Vec::new();
        // The service closes the connection; a read timeout would be an error.
        stream.read_to_end(&mut response).unwrap_or_else(|error| panic!("{half:?}: {error}"));
        assert!(!String::from_utf8_lossy(&response).starts_with("HTTP/1.1 200"), "{half:?}");
    }
    assert_eq!(service.get("/v1/rules").json()["revision"], 0);
}

#[test]
fn connections_over_the_cap_wait() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = RulesServiceOptions::new(folder.path());
    options.connections = 2;
    options.header_timeout = Duration::from_millis(300);
    let service = TestService::with(options, "127.0.0.1:0".parse().unwrap());
    // Silent connections take all slots until they time out.
    let _silent: Vec<TcpStream> =
        (0..4).map(|_| TcpStream::connect(service.address).unwrap()).collect();
    assert_eq!(service.get("/v1/rules").status, 200);
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = RulesServiceOptions::new(folder.path());
    options.max_size = 256 << 10;
    let service = TestService::with(options, "127.0.0.1:0".parse().unwrap());
    service.put("shop", &shop("1/s"));
    let large = format!("{}# {}\n", shop("2/s"), "x".repeat(300 << 10));
    let any = [("if-match", "*")];
    let full = service.send("PUT", "/v1/rules/shop", &any, &large);
    assert_eq!(full.problem(), (507, "disk-full".into()));
    assert_eq!(service.get("/v1/rules/shop").text(), shop("1/s"));
    let after = service.get("/v1/rules").json();
    assert_eq!((&after["revision"], &after["files"][0]["version"]), (&1.into(), &1.into()));
    assert_eq!(service.get("/v1/audit").json()["entries"].as_array().unwrap().len(), 1);
    // A smaller file still fits.
    assert_eq!(service.send("PUT", "/v1/rules/shop", &any, &shop("3/s")).status, 200);
    drop(service);
    let service = TestService::start(folder.path());
    assert_eq!(service.get("/v1/rules/shop").text(), shop("3/s"));
}
