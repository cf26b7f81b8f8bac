//! Functions work on every kind of server, and are loaded again after a flush.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_rig::{Flavour, Redis, Setup};

use super::*;

#[tokio::test]
async fn functions_or_else_scripts_are_called() {
    for (flavour, command) in [
        (Flavour::Redis7, "cmdstat_fcall"),
        (Flavour::Valkey, "cmdstat_fcall"),
        (Flavour::Redis62, "cmdstat_evalsha"),
    ] {
        let redis = Redis::start_flavour(flavour);
        let client = open(&patient(&redis.url())).await;
        for count in 1..=3 {
            assert_eq!(client.count("a").await.unwrap(), count, "{flavour:?}");
        }
        assert!(redis.info(command).is_some(), "{flavour:?} was not called by {command}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_functions_are_loaded_again() {
    for (flavour, flush) in [(Flavour::Redis7, "FUNCTION"), (Flavour::Redis62, "SCRIPT")] {
        let redis = Arc::new(Redis::start_flavour(flavour));
        let client = open(&patient(&redis.url())).await;
        let over = Arc::new(AtomicBool::new(false));
        let flushing = std::thread::spawn({
            let (redis, over) = (redis.clone(), over.clone());
            move || {
                let mut flushed = 0;
                while !over.load(Ordering::Relaxed) {
                    redis.command(&[flush, "FLUSH"]).unwrap();
                    flushed += 1;
                    std::thread::park_timeout(Duration::from_millis(5));
                }
                flushed
            }
        });
        let (done, outages) = hammer(&client, 8, 250, "a").await;
        over.store(true, Ordering::Relaxed);
        assert!(flushing.join().unwrap() > 3);
        assert!(outages.is_empty(), "{flavour:?}: {} of 2000: {:?}", outages.len(), outages[0]);
        assert_eq!(redis.command(&["GET", &key("a")]).unwrap().text(), done.to_string());
    }
}

#[tokio::test]
async fn a_user_without_functions_calls_scripts() {
    let users = "user ann on >secret ~test:* +@all -fcall -function\n";
    let redis = Setup::new(Flavour::Redis7).users(users).start();
    let client = open(&patient(&format!("redis://ann:secret@127.0.0.1:{}", redis.port()))).await;
    assert_eq!(client.count("a").await.unwrap(), 1);
    assert!(redis.info("cmdstat_evalsha").is_some());
}

#[tokio::test]
async fn a_user_who_cannot_load_functions_calls_scripts() {
    let users = "user ann on >secret ~test:* +@all -function\n";
    let redis = Setup::new(Flavour::Redis7).users(users).start();
    let client = open(&patient(&format!("redis://ann:secret@127.0.0.1:{}", redis.port()))).await;
    assert_eq!(client.count("a").await.unwrap(), 1);
    assert!(redis.info("cmdstat_evalsha").is_some());
}

#[tokio::test]
async fn callers_share_connections() {
    let redis = Redis::start();
    let client = open(&patient(&redis.url())).await;
    let (done, outages) = hammer(&client, 64, 20, "a").await;
    assert_eq!((done, outages.len()), (64 * 20, 0));
    // The client that lists the connections is connected as well.
    let clients = redis.command(&["CLIENT", "LIST"]).unwrap().text();
    assert_eq!(clients.lines().filter(|line| line.contains("cmd=fcall")).count(), 2, "{clients}");
}
