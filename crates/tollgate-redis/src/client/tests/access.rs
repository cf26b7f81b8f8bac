//! Access to servers: users, passwords, TLS, old protocols.

use tollgate_rig::{Flavour, Redis, Setup};

use super::*;

/// Connects, and returns the error of the only server.
async fn refusal(options: &Options) -> String {
    let client = open(options).await;
    let outcome = client.count("a").await;
    assert_eq!(kind(&outcome), "resting", "{outcome:?}");
    client.await_trouble().await
}

#[tokio::test]
async fn users_with_few_rights_connect_and_others_get_a_reason() {
    let users = "user default off\n\
        user ann on >s3cret ~test:* resetchannels -@all +ping +time +fcall +function|load +incr\n\
        user bob on >s3cret ~test:* -@all +ping\n";
    // The default user is off, so the rig's own commands would be refused.
    let redis = Setup::new(Flavour::Redis7).users(users).start();
    let at = |login: &str| patient(&format!("redis://{login}127.0.0.1:{}", redis.port()));
    let client = open(&at("ann:s3cret@")).await;
    assert_eq!(client.count("a").await.unwrap(), 1);
    assert!(!format!("{client:?}").contains("s3cret"));
    for (login, expected) in [
        ("ann:wrong@", "WRONGPASS"),
        ("", "NOAUTH"),
        ("bob:s3cret@", "NOPERM"),
        (":s3cret@", "WRONGPASS"),
    ] {
        let reason = refusal(&at(login)).await;
        assert!(reason.contains(expected) && !reason.contains("s3cret"), "{login}: {reason}");
    }
}

#[tokio::test]
async fn a_password_alone_is_enough_without_users() {
    let redis = Redis::start_with(&["--requirepass", "p@ss"]);
    let url = format!("redis://:p%40ss@127.0.0.1:{}/3", redis.port());
    assert_eq!(open(&patient(&url)).await.count("a").await.unwrap(), 1);
}

#[tokio::test]
async fn servers_without_resp3_are_used_with_resp2() {
    for password in [None, Some("s3cret")] {
        let mut setup = Setup::new(Flavour::Redis7).args(["--rename-command", "HELLO", ""]);
        if let Some(password) = password {
            setup = setup.args(["--requirepass", password]);
        }
        let redis = setup.start();
        let login = password.map(|password| format!(":{password}@")).unwrap_or_default();
        let options = patient(&format!("redis://{login}127.0.0.1:{}", redis.port()));
        assert_eq!(open(&options).await.count("a").await.unwrap(), 1);
    }
}

#[tokio::test]
async fn unix_sockets_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let redis = Redis::start_with(&["--unixsocket", path.to_str().unwrap()]);
    let client = open(&patient(&format!("redis+unix://{}?db=2", path.display()))).await;
    assert_eq!(client.count("a").await.unwrap(), 1);
    assert!(redis.command(&["INFO", "keyspace"]).unwrap().text().contains("db2:keys=1"));
}

#[tokio::test]
async fn a_missing_database_is_reported() {
    let redis = Redis::start();
    let reason = refusal(&patient(&format!("{}/99", redis.url()))).await;
    assert!(reason.contains("DB index is out of range"), "{reason}");
}

#[tokio::test]
async fn tls_needs_a_trusted_ca() {
    let redis = Redis::start_tls();
    let files = redis.certificates().unwrap().clone();
    let client = open(&patient(&redis.url()).ca_file(&files.ca)).await;
    assert_eq!(client.count("a").await.unwrap(), 1);

    let other = Redis::start_tls();
    let other_ca = &other.certificates().unwrap().ca;
    let reason = refusal(&patient(&redis.url()).ca_file(other_ca)).await;
    assert!(reason.contains("invalid peer certificate"), "{reason}");
}

#[tokio::test]
async fn tls_sends_a_client_certificate() {
    let redis = Setup::new(Flavour::Redis7).tls().args(["--tls-auth-clients", "yes"]).start();
    let files = redis.certificates().unwrap().clone();
    let vouched = patient(&redis.url()).ca_file(&files.ca);
    let known = vouched.clone().client_certificate(&files.client, &files.client_key);
    assert_eq!(open(&known).await.count("a").await.unwrap(), 1);
    let reason = refusal(&vouched).await;
    assert!(reason.to_lowercase().contains("certificate"), "{reason}");
}

#[tokio::test]
async fn invalid_certificate_files_are_reported_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let wrong = |options: Options| async move { RedisClient::open(&options).await.unwrap_err() };
    let missing = wrong(options("rediss://localhost").ca_file(&path)).await.to_string();
    assert!(missing.contains("ca.pem"), "{missing}");
    std::fs::write(&path, "nothing").unwrap();
    let empty = wrong(options("rediss://localhost").ca_file(&path)).await.to_string();
    assert!(empty.contains("no certificate"), "{empty}");
}
