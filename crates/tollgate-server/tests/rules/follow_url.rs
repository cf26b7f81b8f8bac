//! Following URLs: a rules service, or any server that has a file.

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
use tollgate::rules::RuleLimiter;
use tollgate::{Limiter, Request};
use tollgate_server::sources::{Follower, Opened, Origin, SourceError};

use crate::support::{DEADLINE, Service, service, shop};

fn limit(limiter: &RuleLimiter) -> u64 {
    let decision = limiter.decide(&Request::new("GET", "/").cost(0));
    decision.tightest().map_or(0, |limit| limit.verdict.limit)
}

fn origin(service: &Service) -> Origin {
    let origin = Origin::url(&service.url("/v1/rules/bundle")).unwrap();
    origin.token(Some(service.read.clone())).every(Duration::from_millis(20))
}

fn follow(opened: Opened) -> (RuleLimiter, Follower) {
    let limiter = Limiter::from_rules(opened.rules().clone());
    let follower = opened.follow(limiter.clone());
    (limiter, follower)
}

fn becomes(limiter: &RuleLimiter, follower: &Follower, expected: u64) {
    let came = follower.wait_until(DEADLINE, |_| limit(limiter) == expected);
    assert!(came, "never {expected}: {}, {:?}", limit(limiter), follower.status());
}

/// The one file in a folder with this ending.
fn only(folder: &Path, ending: &str) -> Option<PathBuf> {
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
            becomes(limiter, follower, n);
        }
    }
    let etag = service.get("/v1/rules/bundle").etag();
    for (_, follower) in &limiters {
        assert!(follower.wait_for(etag.trim_matches('"'), DEADLINE));
        assert_eq!(follower.status().failures, 0);
    }
}

#[test]
fn overrides_and_lists_arrive_too() {
    let (service, _folder) = service();
    service.put("shop", "domain: shop\nrules:\n  - { name: api, per: org, limit: 1/h }\n");
    let (limiter, follower) = follow(origin(&service).open().unwrap());
    let acme = || {
        let decision = limiter.decide(&Request::empty().attribute("org", "acme").cost(0));
        decision.tightest().map_or(0, |limit| limit.verdict.limit)
    };
    assert_eq!(acme(), 1);
    let what = r#"{"match":{"org":"acme"},"rule":"api","limit":"7/h"}"#;
    let id = service.ask("POST", "/v1/overrides", &[], what).json()["id"].clone();
    assert!(follower.wait_until(DEADLINE, |_| acme() == 7));
    service.ask("DELETE", &format!("/v1/overrides/{id}"), &[], "");
    assert!(follower.wait_until(DEADLINE, |_| acme() == 1));
}

#[test]
fn a_limiter_goes_on_without_its_service_also_after_a_restart() {
    let (data, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = Service::start(data.path());
    service.put("shop", &shop("1/h"));
    let origin = origin(&service).keep_in(kept.path());
    let (limiter, follower) = follow(origin.clone().open().unwrap());
    service.put("shop", &shop("5/h"));
    becomes(&limiter, &follower, 5);
    let address = service.address;
    drop(service);

    assert!(follower.wait_until(DEADLINE, |status| status.failures > 2));
    assert_eq!(limit(&limiter), 5);
    drop(follower);

    let opened = origin.clone().open().unwrap();
    assert!(opened.status().from_copy && opened.status().last_error.is_some());
    let (limiter, follower) = follow(opened);
    assert_eq!(limit(&limiter), 5);

    let service = Service::start_at(data.path(), address);
    follower.refresh();
    assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_none()));
    assert!(!follower.status().from_copy);
    service.put("shop", &shop("6/h"));
    becomes(&limiter, &follower, 6);
    // The copy is of what is in force: opened again, nothing has to be sent.
    let opened = origin.open().unwrap();
    assert_eq!(limit(&Limiter::from_rules(opened.rules().clone())), 6);
}

#[test]
fn a_damaged_copy_is_put_aside() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = Service::start(data.path());
    service.put("shop", &shop("1/h"));
    let origin = origin(&service).keep_in(folder.path());
    drop(origin.clone().open().unwrap());
    let copy = only(folder.path(), "copy").unwrap();
    let damage = || {
        let mut bytes = fs::read(&copy).unwrap();
        let last = bytes.len() - 5;
        bytes[last] ^= 0x20;
        fs::write(&copy, bytes).unwrap();
    };
    // While the service is there, it replaces the copy.
    damage();
    let opened = origin.clone().open().unwrap();
    assert!(opened.status().copy_error.as_ref().unwrap().contains("is damaged; moved to"));
    assert!(!opened.status().from_copy);
    assert!(only(folder.path(), "damaged").is_some());
    drop(opened);
    // Without both there are no rules, and that is said.
    damage();
    drop(service);
    let error = origin.open().unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    assert_eq!(only(folder.path(), "copy"), None);
}

#[test]
fn a_wrong_token_is_said_and_never_shown() {
    let (service, _folder) = service();
    let secret = "not-the-right-token-at-all";
    let origin = origin(&service).token(Some(secret.parse().unwrap()));
    assert!(!format!("{origin:?}").contains(secret));
    let error = origin.open().unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("is the token right?"), "{error}");
    assert!(!error.contains(secret));
}

/// A server that has one file, and counts how often it had to send it.
#[derive(Default)]
struct Files {
    text: Mutex<String>,
    status: Mutex<Option<StatusCode>>,
    sent: AtomicU64,
    asked: AtomicU64,
}

async fn file(State(files): State<Arc<Files>>, headers: HeaderMap) -> Response {
    files.asked.fetch_add(1, Ordering::SeqCst);
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

/// Runs as long as the process: a test is one.
fn files(text: &str) -> (Arc<Files>, SocketAddr) {
    let files = Arc::new(Files { text: Mutex::new(text.into()), ..Files::default() });
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
fn any_url_may_have_a_rules_file_and_is_only_read_when_it_changed() {
    let (files, address) = files(&shop("1/h"));
    let (limiter, follower) = follow(file_origin(address).open().unwrap());
    assert!(follower.wait_until(DEADLINE, |status| status.looks > 5));
    assert_eq!(files.sent.load(Ordering::SeqCst), 1);
    *files.text.lock() = shop("22/h");
    becomes(&limiter, &follower, 22);
    assert_eq!(files.sent.load(Ordering::SeqCst), 2);
    let origin = follower.status().origin;
    assert_eq!(origin, format!("http://{address}/shop.yaml"), "a query may hold a secret");
}

#[test]
fn wrong_rules_from_a_url_are_refused_once_and_the_old_ones_go_on() {
    let (files, address) = files(&shop("1/h"));
    let kept = tempfile::tempdir().unwrap();
    let origin = file_origin(address).keep_in(kept.path());
    let (limiter, follower) = follow(origin.clone().open().unwrap());
    *files.text.lock() = "rules: [{ name: api, limit: 5/m }]".into();
    assert!(follower.wait_until(DEADLINE, |status| status.failures > 3));
    assert_eq!(limit(&limiter), 1);
    let sent = files.sent.load(Ordering::SeqCst);
    assert_eq!(sent, 2, "what was refused is not fetched again and again");
    let said = follower.status().last_error.unwrap();
    assert!(said.contains("/shop.yaml:1:"), "{said}");
    drop(follower);
    // The copy is the last good one.
    let opened = origin.open().unwrap();
    assert!(opened.status().from_copy);
    let (limiter, follower) = follow(opened);
    assert_eq!(limit(&limiter), 1);
    *files.text.lock() = shop("333/h");
    becomes(&limiter, &follower, 333);
}

#[test]
fn what_answers_something_else_is_asked_less_and_less() {
    let (files, address) = files(&shop("1/h"));
    let (limiter, follower) = follow(file_origin(address).open().unwrap());
    *files.status.lock() = Some(StatusCode::FOUND);
    assert!(follower.wait_until(DEADLINE, |status| status.failures >= 4));
    let said = follower.status().last_error.unwrap();
    assert!(said.contains("redirects are not followed"), "{said}");
    assert_eq!(limit(&limiter), 1);
    *files.status.lock() = None;
    *files.text.lock() = shop("22/h");
    follower.refresh();
    becomes(&limiter, &follower, 22);
}
