//! The bundle that limiters fetch from a service.

use std::thread;

use tollgate_server::bundle::{Bundle, MEDIA_TYPE};

use crate::support::{service, shop};

const PATH: &str = "/v1/rules/bundle";

#[test]
fn a_bundle_is_complete_and_sent_only_when_changed() {
    let (service, _folder) = service();
    let empty = service.get(PATH);
    assert_eq!(empty.status, 200);
    service.put("shop", &shop("1/s"));
    let fetched = service.get(PATH);
    assert_eq!(fetched.header("content-type").as_deref(), Some(MEDIA_TYPE));
    assert!(fetched.etag().starts_with("\"1-"), "{}", fetched.etag());
    assert_ne!(fetched.etag(), empty.etag());
    let bundle = Bundle::decode(fetched.text().as_bytes()).unwrap();
    assert_eq!((bundle.revision, &*bundle.files[0].text), (1, &*shop("1/s")));
    assert!(bundle.rules().is_ok());

    let known = [("if-none-match", &*fetched.etag())];
    let unchanged = service.send("GET", PATH, &known, "");
    assert_eq!((unchanged.status, unchanged.etag()), (304, fetched.etag()));
    service.put("shop", &shop("2/s"));
    assert_eq!(service.send("GET", PATH, &known, "").status, 200);
}

#[test]
fn a_change_answers_waiting_requests_at_once() {
    let (service, _folder) = service();
    service.put("shop", &shop("1/s"));
    // The wait is longer than the test may take, so only the change can end it.
    for (path, preference, limit) in
        [(format!("{PATH}?wait=60s"), "nothing", "2/s"), (PATH.into(), "wait=60", "3/s")]
    {
        let known = service.get(PATH).etag();
        let headers = [("if-none-match", &*known), ("prefer", preference)];
        let response = thread::scope(|scope| {
            let waiting = scope.spawn(|| service.send("GET", &path, &headers, ""));
            service.put("shop", &shop(limit));
            waiting.join().unwrap()
        });
        assert_eq!(response.status, 200);
        assert_eq!(response.header("preference-applied").as_deref(), Some("wait=60"));
    }
    let nothing = [("if-none-match", &*service.get(PATH).etag())];
    assert_eq!(service.send("GET", &format!("{PATH}?wait=0"), &nothing, "").status, 304);
}

#[test]
fn a_stopping_service_answers_waiting_requests() {
    let (service, _folder) = service();
    let known = service.get(PATH).etag();
    let (url, token) = (service.url(&format!("{PATH}?wait=60")), service.read.clone());
    let waiting = thread::spawn(move || {
        crate::support::send(&url, Some(&token), "GET", &[("if-none-match", &known)], "").status
    });
    // This request gives the service time to receive the waiting one before it stops.
    assert_eq!(service.get(PATH).status, 200);
    drop(service);
    // A request that arrives after the stop fails instead.
    if let Ok(status) = waiting.join() {
        assert_eq!(status, 304);
    }
}
