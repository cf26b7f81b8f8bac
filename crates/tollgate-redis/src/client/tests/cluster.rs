//! A cluster whose slots move and whose masters fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_rig::{Cluster, Flavour};

use super::*;

/// Returns the address of one node, which is enough to find the others.
fn url(cluster: &Cluster) -> String {
    format!("redis+cluster://127.0.0.1:{}", cluster.node(1).port())
}

/// Tags in every third of the slots, so that every master has some.
const TAGS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn counted(cluster: &Cluster, tag: &str) -> i64 {
    let owner = cluster.node(cluster.owner_of(cluster.slot_of(&key(tag))));
    owner.command(&["GET", &key(tag)]).unwrap().text().parse().unwrap()
}

#[tokio::test]
async fn every_slot_is_called_at_its_master() {
    for flavour in [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey] {
        let cluster = Cluster::start_flavour(flavour, 3, 0);
        let client = open(&patient(&url(&cluster))).await;
        let mut owners = Vec::new();
        for tag in TAGS {
            assert_eq!(client.count(tag).await.unwrap(), 1);
            assert_eq!(client.route(tag.as_bytes()).slot, cluster.slot_of(&key(tag)));
            owners.push(cluster.owner_of(cluster.slot_of(&key(tag))));
        }
        owners.sort();
        owners.dedup();
        assert_eq!(owners, [0, 1, 2], "the tags of this test are not spread");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_under_load_and_everything_is_counted_once() {
    let cluster = Arc::new(Cluster::start(3, 0));
    let client = open(&patient(&url(&cluster))).await;
    let over = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = TAGS
        .into_iter()
        .map(|tag| {
            let (client, over) = (client.clone(), over.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while !over.load(Ordering::Relaxed) {
                    client.count(tag).await.unwrap_or_else(|error| panic!("{tag}: {error}"));
                    done += 1;
                }
                (tag, done)
            })
        })
        .collect();
    let mover = cluster.clone();
    let moving = tokio::task::spawn_blocking(move || {
        for tag in TAGS {
            let slot = mover.slot_of(&key(tag));
            let to = (mover.owner_of(slot) + 1) % 3;
            mover.begin_move(slot, to);
            mover.migrate(&key(tag), to);
            mover.finish_move(slot, to);
        }
    });
    moving.await.unwrap();
    over.store(true, Ordering::Relaxed);
    for load in loads {
        let (tag, done) = load.await.unwrap();
        assert!(done > 10, "{tag} was counted {done} times only");
        assert_eq!(counted(&cluster, tag), done, "{tag}");
    }
}

#[tokio::test]
async fn keys_of_a_migrating_slot_are_found() {
    let cluster = Cluster::start(3, 0);
    let client = open(&patient(&url(&cluster))).await;
    let slot = cluster.slot_of(&key("a"));
    let to = (cluster.owner_of(slot) + 1) % 3;
    assert_eq!(client.count("a").await.unwrap(), 1);
    cluster.begin_move(slot, to);
    // The key has not moved yet.
    assert_eq!(client.count("a").await.unwrap(), 2);
    cluster.migrate(&key("a"), to);
    // The importing server answers only after ASKING.
    for count in 3..6 {
        assert_eq!(client.count("a").await.unwrap(), count);
    }
    cluster.finish_move(slot, to);
    assert_eq!(client.count("a").await.unwrap(), 6);
    assert_eq!(counted(&cluster, "a"), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_until_its_keys_are_on_one_server() {
    let cluster = Cluster::start(3, 0);
    let client = open(&patient(&url(&cluster))).await;
    let (keys, route) = (arguments(&["{a}1", "{a}2"]), client.route(b"a"));
    let run = async move || client.run(route, &both(), &keys, &arguments(&[])).await;
    assert_eq!(run().await.unwrap(), Value::Int(2));
    let to = (cluster.owner_of(route.slot) + 1) % 3;
    cluster.begin_move(route.slot, to);
    cluster.migrate("{a}1", to);
    let waiting = tokio::spawn(async move { run().await });
    let refused = || {
        let nodes = cluster.nodes().iter();
        nodes.filter_map(|node| node.info("errorstat_TRYAGAIN")).count() > 0
    };
    tollgate_rig::until("a server answers TRYAGAIN", refused);
    assert!(!waiting.is_finished());
    cluster.finish_move(route.slot, to);
    assert_eq!(waiting.await.unwrap().unwrap(), Value::Int(4));
}

/// A function that increments two keys and returns their sum.
fn both() -> ServerFunction {
    let text = "return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])\n";
    let library = "#!lua name=client_both\n\
         redis.register_function('client_test_both', function(keys)\n\
         return redis.call('INCR', keys[1]) + redis.call('INCR', keys[2]) end)\n";
    let sha1 = Sha1::from(text).digest().to_string();
    ServerFunction {
        name: "client_test_both".into(),
        library: library.into(),
        script: text.into(),
        sha1,
    }
}

#[tokio::test]
async fn a_replica_replaces_a_killed_master() {
    let cluster = Cluster::start(3, 1);
    let options = options(&url(&cluster)).connect_timeout(PATIENCE).unwrap();
    let client = open(&options.timeout(Duration::from_millis(500)).unwrap()).await;
    for tag in TAGS {
        client.count(tag).await.unwrap();
    }
    let owner = cluster.owner_of(cluster.slot_of(&key("a")));
    cluster.node(owner).kill();
    let reason = client.await_trouble().await;
    assert!(reason.contains(&cluster.node(owner).port().to_string()), "{reason}");
    assert_eq!(kind(&client.count("a").await), "resting");
    let took = client.count_until_well("a").await;
    eprintln!("counting again {took:?} after a master was killed");
    for tag in TAGS {
        client.count_until_well(tag).await;
    }
    client.recover().await;
}

#[tokio::test]
async fn a_missing_cluster_is_probed() {
    let cluster = Cluster::start(3, 0);
    let url = url(&cluster);
    cluster.nodes().iter().for_each(|node| node.kill());
    let client = open(&options(&url).timeout(Duration::from_secs(5)).unwrap()).await;
    assert_eq!(kind(&client.count("a").await), "resting");
    let reason = client.await_trouble().await;
    assert!(reason.contains("cannot be reached"), "{reason}");
    cluster.nodes().iter().for_each(|node| node.restart());
    cluster.await_whole();
    let took = client.count_until_well("a").await;
    eprintln!("counting again {took:?} after the cluster was whole");
}

#[tokio::test]
async fn a_cluster_without_a_master_is_down_until_it_is_back() {
    let cluster = Cluster::start(3, 0);
    let client = open(&patient(&url(&cluster))).await;
    for tag in TAGS {
        client.count(tag).await.unwrap();
    }
    let lost = cluster.owner_of(cluster.slot_of(&key("a")));
    let elsewhere = |tag: &&str| cluster.owner_of(cluster.slot_of(&key(tag))) != lost;
    let other = *TAGS.iter().find(|tag| elsewhere(tag)).unwrap();
    cluster.node(lost).kill();
    // The other masters serve requests until they notice, and then refuse all.
    let started = Instant::now();
    while kind(&client.count(other).await) != "resting" {
        assert!(started.elapsed() < PATIENCE);
        sleep(Duration::from_millis(2)).await;
    }
    cluster.node(lost).restart();
    for tag in TAGS {
        client.count_until_well(tag).await;
    }
    client.recover().await;
}
