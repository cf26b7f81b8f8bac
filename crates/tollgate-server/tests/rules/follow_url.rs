//! Following URLs: a rules service, or a file on any server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;
use tollgate_rules::{Request, RuleLimiter};
use tollgate_server::sources::{Follower, OpenedOrigin, Origin, SourceError};

use crate::support::{DEADLINE, TestService, service, shop};

fn limit(limiter: &RuleLimiter) -> u64 {
    let decision = limiter.decide_now(&Request::new("GET", "/").cost(0));
    decision.tightest().map_or(0, |limit| limit.verdict.limit)
}

fn origin(service: &TestService) -> Origin {
    let origin = Origin::url(&service.url("/v1/rules/bundle")).unwrap();
    origin.token(Some(service.read.clone())).every(Duration::from_millis(20))
}

fn follow(opened: OpenedOrigin) -> (RuleLimiter, Follower) {
    let limiter = RuleLimiter::new(opened.rules().clone());
    let follower = opened.follow(limiter.clone());
    (limiter, follower)
}

fn assert_becomes(limiter: &RuleLimiter, follower: &Follower, expected: u64) {
    let came = follower.wait_until(DEADLINE, |_| limit(limiter) == expected);
    assert!(came, "{expected} not in time: {}, {:?}", limit(limiter), follower.status());
}

/// Returns the only file of a folder with the given extension.
fn only_file(folder: &Path, ending: &str) -> Option<PathBuf> {
    let paths = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
    let mut found = paths.filter(|path| path.extension().is_some_and(|e| e == ending));
    let first = found.next();
    assert_eq!(found.next(), None);
    first
}

#[test]
fn many_limiters_follow_one_service() {
    let (service, _folder) = service();
    service.put("shop", &shop("1/h"));
    let limiters: Vec<_> = thread::scope(|scope| {
        let open = || follow(origin(&service).open().unwrap());
        let opening: Vec<_> = (0..20).map(|_| scope.spawn(open)).collect();
        opening.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for n in 2..5 {
        service.put("shop", &shop(&format!("{n}/h")));
        for (limiter, follower) in &limiters {
            assert_becomes(limiter, follower, n);
        }
    }
    let etag = service.get("/v1/rules/bundle").etag();
    for (_, follower) in &limiters {
        assert!(follower.wait_for(etag.trim_matches('"'), DEADLINE));
        assert_eq!(follower.status().failures, 0);
    }
}

#[test]
fn overrides_of_a_service_apply_to_followers() {
    let (service, _folder) = service();
    service.put(
        "shop",
        "domain: shop\nattributes: [org]\nrules:\n  - { name: api, per: org, limit: 1/h }\n",
    );
    let (limiter, follower) = follow(origin(&service).open().unwrap());
    let acme = || {
        let decision = limiter.decide_now(&Request::empty().attribute("org", "acme").cost(0));
        decision.tightest().map_or(0, |limit| limit.verdict.limit)
    };
    assert_eq!(acme(), 1);
    let what = r#"{"match":{"org":"acme"},"rule":"api","limit":"7/h"}"#;
    let id = service.send("POST", "/v1/overrides", &[], what).json()["id"].clone();
    assert!(follower.wait_until(DEADLINE, |_| acme() == 7));
    service.send("DELETE", &format!("/v1/overrides/{id}"), &[], "");
    assert!(follower.wait_until(DEADLINE, |_| acme() == 1));
}

#[test]
fn a_limiter_works_without_its_service_even_after_a_restart() {
    let (data, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = TestService::start(data.path());
    service.put("shop", &shop("1/h"));
    let origin = origin(&service).copy_folder(copies.path());
    let (limiter, follower) = follow(origin.clone().open().unwrap());
    service.put("shop", &shop("5/h"));
    assert_becomes(&limiter, &follower, 5);
    let address = service.address;
    drop(service);

    assert!(follower.wait_until(DEADLINE, |status| status.failures > 2));
    assert_eq!(limit(&limiter), 5);
    drop(follower);

    let opened = origin.clone().open().unwrap();
    assert!(opened.status().from_copy && opened.status().last_error.is_some());
    let (limiter, follower) = follow(opened);
    assert_eq!(limit(&limiter), 5);

    let service = TestService::start_at(data.path(), address);
    follower.refresh();
    assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_none()));
    assert!(!follower.status().from_copy);
    service.put("shop", &shop("6/h"));
    assert_becomes(&limiter, &follower, 6);
    // The saved copy has the active rules.
    let opened = origin.open().unwrap();
    assert_eq!(limit(&RuleLimiter::new(opened.rules().clone())), 6);
}

#[test]
fn a_damaged_copy_is_moved_away() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = TestService::start(data.path());
    service.put("shop", &shop("1/h"));
    let origin = origin(&service).copy_folder(folder.path());
    drop(origin.clone().open().unwrap());
    let copy = only_file(folder.path(), "copy").unwrap();
    let damage = || {
        let mut bytes = fs::read(&copy).unwrap();
        let last = bytes.len() - 5;
        bytes[last] ^= 0x20;
        fs::write(&copy, bytes).unwrap();
    };
    // A reachable service replaces the copy.
    damage();
    let opened = origin.clone().open().unwrap();
    assert!(opened.status().copy_error.as_ref().unwrap().contains("is damaged; moved to"));
    assert!(!opened.status().from_copy);
    assert!(only_file(folder.path(), "damaged").is_some());
    drop(opened);
    // Without the service and the copy there are no rules.
    damage();
    drop(service);
    let error = origin.open().unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    assert_eq!(only_file(folder.path(), "copy"), None);
}

#[test]
fn an_invalid_token_is_reported_but_never_printed() {
    let (service, _folder) = service();
    let secret = "not-the-right-token-at-all";
    let origin = origin(&service).token(Some(secret.parse().unwrap()));
    assert!(!format!("{origin:?}").contains(secret));
    let error = origin.open().unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("is the token right?"), "{error}");
    assert!(!error.contains(secret));
}

/// A server with one file that counts how often it sends the file.
#[derive(Default)]
struct FileServer {
    text: Mutex<String>,
    status: Mutex<Option<StatusCode>>,
    sent: AtomicU64,
}

async fn file(State(files): State<Arc<FileServer>>, headers: HeaderMap) -> Response {
    if let Some(status) = *files.status.lock() {
        return (status, [("location", "http://127.0.0.1:1/")]).into_response();
    }
    let text = files.text.lock().clone();
    let etag = format!("\"{}\"", text.len());
    if headers.get("if-none-match").is_some_and(|known| known == etag.as_str()) {
        return (StatusCode::NOT_MODIFIED, [("etag", etag)]).into_response();
    }
    files.sent.fetch_add(1, Ordering::SeqCst);
    ([("etag", etag), ("content-type", "text/yaml".into())], text).into_response()
}

/// Starts a file server that runs until the process ends.
fn start_file_server(text: &str) -> (Arc<FileServer>, SocketAddr) {
    let files = Arc::new(FileServer { text: Mutex::new(text.into()), ..FileServer::default() });
    let (sender, address) = std::sync::mpsc::channel();
    let app = Router::new().route("/shop.yaml", get(file)).with_state(files.clone());
    thread::spawn(move || {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
    });
    (files, address.recv().unwrap())
}

fn file_origin(address: SocketAddr) -> Origin {
    let origin = Origin::url(&format!("http://{address}/shop.yaml?key=secret")).unwrap();
    origin.every(Duration::from_millis(10))
}

#[test]
fn a_rules_file_at_a_url_is_sent_only_when_it_changed() {
    let (files, address) = start_file_server(&shop("1/h"));
    let (limiter, follower) = follow(file_origin(address).open().unwrap());
    assert!(follower.wait_until(DEADLINE, |status| status.reads > 5));
    assert_eq!(files.sent.load(Ordering::SeqCst), 1);
    *files.text.lock() = shop("22/h");
    assert_becomes(&limiter, &follower, 22);
    assert_eq!(files.sent.load(Ordering::SeqCst), 2);
    let origin = follower.status().origin;
    assert_eq!(origin, format!("http://{address}/shop.yaml"), "a query may contain a secret");
}

#[test]
fn invalid_rules_from_a_url_are_fetched_once_and_the_old_rules_stay_active() {
    let (files, address) = start_file_server(&shop("1/h"));
    let copies = tempfile::tempdir().unwrap();
    let origin = file_origin(address).copy_folder(copies.path());
    let (limiter, follower) = follow(origin.clone().open().unwrap());
    *files.text.lock() = "rules: [{ name: api, limit: 5/m }]".into();
    assert!(follower.wait_until(DEADLINE, |status| status.failures > 3));
    assert_eq!(limit(&limiter), 1);
    let sent = files.sent.load(Ordering::SeqCst);
    assert_eq!(sent, 2, "refused rules are not fetched again");
    let error = follower.status().last_error.unwrap();
    assert!(error.contains("/shop.yaml:1:"), "{error}");
    drop(follower);
    // The copy has the last valid rules.
    let opened = origin.open().unwrap();
    assert!(opened.status().from_copy);
    let (limiter, follower) = follow(opened);
    assert_eq!(limit(&limiter), 1);
    *files.text.lock() = shop("333/h");
    assert_becomes(&limiter, &follower, 333);
}

#[test]
fn redirects_are_errors_and_the_old_rules_stay_active() {
    let (files, address) = start_file_server(&shop("1/h"));
    let (limiter, follower) = follow(file_origin(address).open().unwrap());
    *files.status.lock() = Some(StatusCode::FOUND);
    assert!(follower.wait_until(DEADLINE, |status| status.failures >= 4));
    let error = follower.status().last_error.unwrap();
    assert!(error.contains("redirects are not followed"), "{error}");
    assert_eq!(limit(&limiter), 1);
    *files.status.lock() = None;
    *files.text.lock() = shop("22/h");
    follower.refresh();
    assert_becomes(&limiter, &follower, 22);
}
