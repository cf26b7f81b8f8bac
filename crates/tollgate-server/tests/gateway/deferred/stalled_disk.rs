//! The server while the disk of its deferred queue stalls.

use std::time::Duration;

use tollgate_rig::{Upstream, WebClient};

use super::support::{ONE_AN_HOUR, report, start_as, until};

/// The number of requests that wait for the disk. Each waits for five seconds before it fails.
const REQUESTS: usize = 20;

#[test]
fn metrics_and_shutdown_do_not_wait_for_a_stalled_disk() {
    let upstream = Upstream::start();
    let data = tempfile::tempdir().unwrap();
    let gateway = start_as(ONE_AN_HOUR, &upstream.url(), data.path(), |config| {
        config.drain.patience = Duration::from_millis(100);
    });
    assert_eq!(report(&mut gateway.connect(), "acme", "0").status(), 200);
    assert!(gateway.metrics().contains("tollgate_deferred{state=\"queued\"} 0"));
    // A writer that does not finish keeps every change waiting, as a disk that does not answer does.
    let writer = rusqlite::Connection::open(data.path().join("deferred.db")).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut clients: Vec<_> = (0..REQUESTS).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        client
            .write("POST /report HTTP/1.1\r\nhost: a\r\nx-org: acme\r\ncontent-length: 0\r\n\r\n");
    }
    let stalled = "tollgate_database_stalled_seconds{database=\"deferred\"}";
    until("the stall is reported", || gateway.metric(stalled) > 0);
    let metrics = gateway.metrics();
    assert!(!metrics.contains("tollgate_deferred{"), "an unknown number is not 0: {metrics}");
    let ready: serde_json::Value =
        serde_json::from_slice(&WebClient::connect(gateway.http()).get("/readyz").body).unwrap();
    assert_eq!(ready["stalled"][0]["database"], "deferred", "{ready}");
    assert_eq!(report(&mut gateway.connect(), "other", "").status(), 200, "others pass");
    let stopping = gateway.stop();
    until("the server has stopped", || stopping.is_finished());
    stopping.join().unwrap();
    drop((clients, writer));
}
