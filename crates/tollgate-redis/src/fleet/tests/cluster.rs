//! A cluster whose slots move and whose masters fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_rig::{Cluster, Flavour};

use super::*;

/// One node is enough to find the others.
fn url(cluster: &Cluster) -> String {
    format!("redis+cluster://127.0.0.1:{}", cluster.node(1).port())
}

/// A tag in every third of the slots, so that every master has some.
const TAGS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn counted(cluster: &Cluster, tag: &str) -> i64 {
    let owner = cluster.node(cluster.owner_of(cluster.slot_of(&key(tag))));
    owner.command(&["GET", &key(tag)]).unwrap().text().parse().unwrap()
}

#[tokio::test]
async fn every_slot_is_asked_at_its_master() {
    for flavour in [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey] {
        let cluster = Cluster::of(flavour, 3, 0);
        let fleet = open(&patient(&url(&cluster))).await;
        let mut owners = Vec::new();
        for tag in TAGS {
            assert_eq!(fleet.count(tag).await.unwrap(), 1);
            assert_eq!(fleet.place(tag.as_bytes()).slot, cluster.slot_of(&key(tag)));
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
    let fleet = open(&patient(&url(&cluster))).await;
    let over = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = TAGS
        .into_iter()
        .map(|tag| {
            let (fleet, over) = (fleet.clone(), over.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while !over.load(Ordering::Relaxed) {
                    fleet.count(tag).await.unwrap_or_else(|trouble| panic!("{tag}: {trouble}"));
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
async fn keys_of_a_slot_that_is_half_way_are_asked_where_they_are() {
    let cluster = Cluster::start(3, 0);
    let fleet = open(&patient(&url(&cluster))).await;
    let slot = cluster.slot_of(&key("a"));
    let to = (cluster.owner_of(slot) + 1) % 3;
    assert_eq!(fleet.count("a").await.unwrap(), 1);
    cluster.begin_move(slot, to);
    // Still where it was.
    assert_eq!(fleet.count("a").await.unwrap(), 2);
    cluster.migrate(&key("a"), to);
    // Nobody but who asks for it gets it there.
    for count in 3..6 {
        assert_eq!(fleet.count("a").await.unwrap(), count);
    }
    cluster.finish_move(slot, to);
    assert_eq!(fleet.count("a").await.unwrap(), 6);
    assert_eq!(counted(&cluster, "a"), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_apart_are_waited_for() {
    let cluster = Cluster::start(3, 0);
    let fleet = open(&patient(&url(&cluster))).await;
    let (keys, place) = (words(&["{a}1", "{a}2"]), fleet.place(b"a"));
    let run = async move || fleet.run(place, &both(), &keys, &words(&[])).await;
    assert_eq!(run().await.unwrap(), Value::Int(2));
    let to = (cluster.owner_of(place.slot) + 1) % 3;
    cluster.begin_move(place.slot, to);
    cluster.migrate("{a}1", to);
    let waiting = tokio::spawn(async move { run().await });
    let refused = || {
        let nodes = cluster.nodes().iter();
        nodes.filter_map(|node| node.info("errorstat_TRYAGAIN")).count() > 0
    };
    tollgate_rig::until("somebody is told to try again", refused);
    assert!(!waiting.is_finished());
    cluster.finish_move(place.slot, to);
    assert_eq!(waiting.await.unwrap().unwrap(), Value::Int(4));
}

/// Counts up two keys, and says what they are together.
fn both() -> Script {
    let text = "return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])\n";
    let library = "#!lua name=fleet_both\n\
         redis.register_function('fleet_test_both', function(keys)\n\
         return redis.call('INCR', keys[1]) + redis.call('INCR', keys[2]) end)\n";
    let sha1 = Sha1::from(text).digest().to_string();
    Script { function: "fleet_test_both".into(), library, text: text.into(), sha1 }
}

#[tokio::test]
async fn a_replica_takes_the_place_of_a_master_that_was_killed() {
    let cluster = Cluster::start(3, 1);
    let options = options(&url(&cluster)).connect_timeout(PATIENCE).unwrap();
    let fleet = open(&options.timeout(Duration::from_millis(500)).unwrap()).await;
    for tag in TAGS {
        fleet.count(tag).await.unwrap();
    }
    let owner = cluster.owner_of(cluster.slot_of(&key("a")));
    cluster.node(owner).kill();
    let why = fleet.await_trouble().await;
    assert!(why.contains(&cluster.node(owner).port().to_string()), "{why}");
    assert_eq!(kind(&fleet.count("a").await), "resting");
    let took = fleet.count_until_well("a").await;
    eprintln!("counting again {took:?} after a master was killed");
    for tag in TAGS {
        fleet.count_until_well(tag).await;
    }
    fleet.recover().await;
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_looked_for() {
    let cluster = Cluster::start(3, 0);
    let url = url(&cluster);
    cluster.nodes().iter().for_each(|node| node.kill());
    let fleet = open(&options(&url).timeout(Duration::from_secs(5)).unwrap()).await;
    assert_eq!(kind(&fleet.count("a").await), "resting");
    let why = fleet.await_trouble().await;
    assert!(why.contains("cannot be reached"), "{why}");
    cluster.nodes().iter().for_each(|node| node.restart());
    cluster.await_whole();
    let took = fleet.count_until_well("a").await;
    eprintln!("counting again {took:?} after the cluster was whole");
}

#[tokio::test]
async fn a_cluster_that_misses_a_master_is_left_alone_until_it_is_back() {
    let cluster = Cluster::start(3, 0);
    let fleet = open(&patient(&url(&cluster))).await;
    for tag in TAGS {
        fleet.count(tag).await.unwrap();
    }
    let lost = cluster.owner_of(cluster.slot_of(&key("a")));
    let elsewhere = |tag: &&str| cluster.owner_of(cluster.slot_of(&key(tag))) != lost;
    let other = *TAGS.iter().find(|tag| elsewhere(tag)).unwrap();
    cluster.node(lost).kill();
    // The others go on until they notice, and then serve nobody.
    let started = Instant::now();
    while kind(&fleet.count(other).await) != "resting" {
        assert!(started.elapsed() < PATIENCE);
        sleep(Duration::from_millis(2)).await;
    }
    cluster.node(lost).restart();
    for tag in TAGS {
        fleet.count_until_well(tag).await;
    }
    fleet.recover().await;
}
