//! The server while the disk of its rules database stalls.

use serde_json::json;
use tollgate_rig::until;

use super::API;
use super::client::AdminClient;
use crate::http::client::HttpClient;
use crate::support::start_with;

/// The number of changes that wait for the disk. Each waits for five seconds before it fails.
const CHANGES: usize = 12;

#[test]
fn readiness_is_reported_while_the_rules_database_stalls() {
    let data = tempfile::tempdir().unwrap();
    let server = start_with(API, |config| config.data = Some(data.path().to_owned()));
    let admin = AdminClient::with_all_rights(&server);
    let ready = || admin.get("/readyz").json();
    assert_eq!(ready().get("stalled"), None);
    // A writer that does not finish keeps every change waiting, as a disk that does not answer does.
    let writer = rusqlite::Connection::open(data.path().join("rules.db")).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let change = json!({ "rule": "api", "key": "ann" }).to_string();
    let request = format!(
        "POST /v1/bans HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{change}",
        server.admin_token(),
        change.len()
    );
    let mut changes: Vec<_> = (0..CHANGES).map(|_| HttpClient::connect(server.http())).collect();
    changes.iter_mut().for_each(|client| client.write(&request));
    until("the stall is reported", || {
        let ready = ready();
        assert_eq!(ready["ready"], true, "decisions need no disk: {ready}");
        ready["stalled"][0]["database"] == "rules"
    });
    let metrics = admin.get("/metrics").text;
    let stalled = "tollgate_database_stalled_seconds{database=\"rules\"} ";
    assert!(metrics.contains(stalled) && !metrics.contains(&format!("{stalled}0\n")), "{metrics}");
    assert!(admin.passes("bob"));
    writer.execute_batch("ROLLBACK").unwrap();
    until("the disk is back", || ready().get("stalled").is_none());
    server.stop();
}

#[test]
fn a_stalled_rules_database_does_not_delay_the_shutdown() {
    let data = tempfile::tempdir().unwrap();
    let server = start_with(API, |config| {
        config.data = Some(data.path().to_owned());
        config.drain.patience = std::time::Duration::from_millis(100);
    });
    let writer = rusqlite::Connection::open(data.path().join("rules.db")).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let token = server.admin_token();
    let address = server.http();
    let mut changes = Vec::new();
    for _ in 0..CHANGES {
        let mut client = HttpClient::connect(address);
        client.write(format!(
            "DELETE /v1/bans/1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        ));
        changes.push(client);
    }
    let admin = AdminClient::with_all_rights(&server);
    until("the stall is reported", || admin.get("/readyz").json().get("stalled").is_some());
    let stopping = std::thread::spawn(move || server.stop());
    until("the server has stopped", || stopping.is_finished());
    stopping.join().unwrap();
    drop((changes, writer));
}
