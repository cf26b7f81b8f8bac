//! Being let in: users, passwords, TLS, old protocols.

use tollgate_rig::{Flavour, Redis, Setup};

use super::*;

/// Opens, and says what is wrong with the one server.
async fn refusal(options: &Options) -> String {
    let fleet = open(options).await;
    let outcome = fleet.count("a").await;
    assert_eq!(kind(&outcome), "resting", "{outcome:?}");
    fleet.await_trouble().await
}

#[tokio::test]
async fn users_with_few_rights_are_let_in_and_others_are_told_why_not() {
    let users = "user default off\n\
        user ann on >s3cret ~test:* resetchannels -@all +ping +time +fcall +function|load +incr\n\
        user bob on >s3cret ~test:* -@all +ping\n";
    // The rig's own question would not be answered.
    let redis = Setup::new(Flavour::Redis7).users(users).start();
    let at = |login: &str| patient(&format!("redis://{login}127.0.0.1:{}", redis.port()));
    let fleet = open(&at("ann:s3cret@")).await;
    assert_eq!(fleet.count("a").await.unwrap(), 1);
    assert!(!format!("{fleet:?}").contains("s3cret"));
    for (login, said) in [
        ("ann:wrong@", "WRONGPASS"),
        ("", "NOAUTH"),
        ("bob:s3cret@", "NOPERM"),
        (":s3cret@", "WRONGPASS"),
    ] {
        let why = refusal(&at(login)).await;
        assert!(why.contains(said) && !why.contains("s3cret"), "{login}: {why}");
    }
}

#[tokio::test]
async fn a_password_alone_is_enough_where_there_are_no_users() {
    let redis = Redis::start_with(&["--requirepass", "p@ss"]);
    let url = format!("redis://:p%40ss@127.0.0.1:{}/3", redis.port());
    assert_eq!(open(&patient(&url)).await.count("a").await.unwrap(), 1);
}

#[tokio::test]
async fn servers_that_do_not_speak_the_new_protocol_are_spoken_to_in_the_old_one() {
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
async fn sockets_in_the_file_system_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let redis = Redis::start_with(&["--unixsocket", path.to_str().unwrap()]);
    let fleet = open(&patient(&format!("redis+unix://{}?db=2", path.display()))).await;
    assert_eq!(fleet.count("a").await.unwrap(), 1);
    assert!(redis.command(&["INFO", "keyspace"]).unwrap().text().contains("db2:keys=1"));
}

#[tokio::test]
async fn a_database_that_is_not_there_is_told() {
    let redis = Redis::start();
    let why = refusal(&patient(&format!("{}/99", redis.url()))).await;
    assert!(why.contains("DB index is out of range"), "{why}");
}

#[tokio::test]
async fn tls_needs_somebody_who_vouches() {
    let redis = Redis::start_tls();
    let files = redis.certificates().unwrap().clone();
    let fleet = open(&patient(&redis.url()).ca_file(&files.ca)).await;
    assert_eq!(fleet.count("a").await.unwrap(), 1);

    let other = Redis::start_tls();
    let stranger = &other.certificates().unwrap().ca;
    let why = refusal(&patient(&redis.url()).ca_file(stranger)).await;
    assert!(why.contains("invalid peer certificate"), "{why}");
}

#[tokio::test]
async fn tls_shows_a_certificate_to_servers_that_want_one() {
    let redis = Setup::new(Flavour::Redis7).tls().args(["--tls-auth-clients", "yes"]).start();
    let files = redis.certificates().unwrap().clone();
    let vouched = patient(&redis.url()).ca_file(&files.ca);
    let known = vouched.clone().client_certificate(&files.client, &files.client_key);
    assert_eq!(open(&known).await.count("a").await.unwrap(), 1);
    let why = refusal(&vouched).await;
    assert!(why.to_lowercase().contains("certificate"), "{why}");
}

#[tokio::test]
async fn files_that_are_no_certificates_are_told_before_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let wrong = |options: Options| async move { Fleet::open(&options).await.unwrap_err() };
    let missing = wrong(options("rediss://localhost").ca_file(&path)).await.to_string();
    assert!(missing.contains("ca.pem"), "{missing}");
    std::fs::write(&path, "nothing").unwrap();
    let empty = wrong(options("rediss://localhost").ca_file(&path)).await.to_string();
    assert!(empty.contains("no certificate"), "{empty}");
}
