//! Masters that are found through their sentinels.

use tollgate_rig::{Redis, Sentinels};

use super::*;

fn url(sentinels: &Sentinels) -> String {
    let hosts: Vec<String> =
        sentinels.sentinels().iter().map(|each| format!("127.0.0.1:{}", each.port())).collect();
    format!("redis+sentinel://{}/{}", hosts.join(","), sentinels.name())
}

#[tokio::test]
async fn a_new_master_is_found_after_a_kill() {
    let sentinels = Sentinels::start();
    let client = open(&patient(&url(&sentinels))).await;
    assert_eq!(client.count("a").await.unwrap(), 1);
    sentinels.sentinels()[0].kill();
    let killed = sentinels.kill_primary();
    let reason = client.await_trouble().await;
    assert!(reason.contains("cannot be reached"), "{reason}");
    assert_eq!(kind(&client.count("a").await), "resting");
    let took = client.count_until_well("a").await;
    eprintln!("counting again {took:?} after the master was killed");
    let new = sentinels.await_primary(killed);
    assert!(new.info("cmdstat_fcall").is_some(), "it was counted elsewhere");
}

#[tokio::test]
async fn a_master_that_steps_down_is_abandoned() {
    let sentinels = Sentinels::start();
    let client = open(&patient(&url(&sentinels))).await;
    assert_eq!(client.count("a").await.unwrap(), 1);
    let old = sentinels.primary();
    sentinels.sentinels()[1].command(&["SENTINEL", "FAILOVER", sentinels.name()]).unwrap();
    let new: &Redis = sentinels.await_primary(old);
    let counted = || new.command(&["GET", &key("a")]).unwrap().text();
    let (named, before) = (Instant::now(), counted());
    while counted() == before {
        assert!(named.elapsed() < PATIENCE, "nothing is counted at the new master");
        client.count_until_well("a").await;
        sleep(Duration::from_millis(20)).await;
    }
    eprintln!("counting there {:?} after the new master was named", named.elapsed());
}

#[tokio::test]
async fn an_unknown_master_name_is_reported() {
    let sentinels = Sentinels::start();
    let wrong = url(&sentinels).replace(sentinels.name(), "othermaster");
    let client = open(&patient(&wrong)).await;
    let reason = client.await_trouble().await;
    assert!(reason.contains("knows no master called \"othermaster\""), "{reason}");
}
