//! Workers of the deferred queue: no request that was accepted is lost.

use tollgate_rig::{Message, WebClient, until};

use super::harness::{PanickingServer, start};
use crate::background::{BackgroundWorker, inject_panics};

/// Sends reports until the limit is used up; returns the first answer that is not a success.
fn deferred_report(server: &PanickingServer) -> Message {
    let mut client = WebClient::connect(server.gateway());
    loop {
        let answer = client.send("POST", "/report", &[], "report");
        if answer.status() != 200 {
            return answer;
        }
    }
}

/// Lets a worker panic once, defers a request, and waits until it is replayed.
fn expect_replay(worker: BackgroundWorker, panics: usize) {
    let server = start();
    inject_panics(worker, panics);
    let answer = deferred_report(&server);
    assert_eq!(answer.status(), 202, "{}", answer.text());
    let place = answer.header("location").unwrap().to_owned();
    until("the request is sent", || {
        let state = WebClient::connect(server.gateway()).get(&place).text();
        state.contains("\"done\"")
    });
    server.expect_panics(worker, panics as u64);
    server.stop();
}

#[test]
fn a_request_is_replayed_after_a_panic_of_any_replay_worker() {
    expect_replay(BackgroundWorker::DeferredReplay, 1);
}

#[test]
fn a_request_is_replayed_after_a_panic_of_the_dispatcher() {
    expect_replay(BackgroundWorker::DeferredDispatch, 1);
}

#[test]
fn a_request_is_sent_again_after_a_panic_of_its_delivery() {
    expect_replay(BackgroundWorker::DeferredDelivery, 1);
}

#[test]
fn a_request_that_could_not_be_stored_is_refused() {
    let server = start();
    server.break_worker(BackgroundWorker::DeferredAdd, 1, |server| {
        let answer = deferred_report(server);
        assert_eq!(answer.status(), 503, "{}", answer.text());
    });
    assert_eq!(deferred_report(&server).status(), 202);
    server.stop();
}

#[test]
fn the_database_of_deferred_requests_goes_on_after_a_panic() {
    let server = start();
    server.break_worker(BackgroundWorker::DeferredDatabase, 1, |server| {
        // A sweep or the request itself takes the panic; afterwards requests are accepted.
        let status = deferred_report(server).status();
        assert!([202, 503].contains(&status), "{status}");
    });
    assert_eq!(deferred_report(&server).status(), 202);
    server.stop();
}
