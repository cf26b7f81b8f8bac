//! Clusters and sentinels.

use tollgate_rig::{Cluster, Flavour, Sentinels, until};

#[test]
fn a_cluster_of_three_masters_moves_slots() {
    let cluster = Cluster::start(3, 0);
    let slots = || (0..3).map(|index| cluster.slots_at(index)).collect::<Vec<_>>();
    let before = slots();
    assert_eq!(before.iter().sum::<usize>(), 16_384);
    assert!(before.iter().all(|slots| *slots > 5_000), "{before:?}");

    let slot = cluster.slot_of("{tag}key");
    assert_eq!(slot, cluster.slot_of("{tag}other"));
    let owner = cluster.owner_of(slot);
    cluster.node(owner).command(&["SET", "{tag}key", "1"]).unwrap();
    let other = (owner + 1) % 3;
    let error = cluster.node(other).command(&["GET", "{tag}key"]).unwrap_err().to_string();
    assert_eq!(error, format!("MOVED {slot} 127.0.0.1:{}", cluster.node(owner).port()));

    cluster.begin_move(slot, other);
    let error = cluster.node(owner).command(&["GET", "{tag}absent"]).unwrap_err().to_string();
    assert_eq!(error, format!("ASK {slot} 127.0.0.1:{}", cluster.node(other).port()));
    cluster.finish_move(slot, other);
    assert_eq!(cluster.owner_of(slot), other);
    assert_eq!(cluster.node(other).command(&["GET", "{tag}key"]).unwrap().text(), "1");

    let before = slots();
    cluster.move_slots(0, 1, 100);
    assert_eq!(slots(), [before[0] - 100, before[1] + 100, before[2]]);
}

#[test]
fn a_replica_replaces_a_killed_master() {
    let cluster = Cluster::start(3, 1);
    let lost = cluster.node(0);
    lost.kill();
    until("three running masters", || {
        let running = cluster.nodes().iter().filter(|node| node.is_running());
        running.filter(|node| node.info("role").as_deref() == Some("master")).count() == 3
    });
    cluster.await_whole();
}

#[test]
fn a_cluster_of_valkey() {
    let cluster = Cluster::start_flavour(Flavour::Valkey, 3, 0);
    assert!(cluster.node(cluster.owner_of(0)).info("valkey_version").is_some());
}

#[test]
fn sentinels_replace_the_primary() {
    let sentinels = Sentinels::start();
    assert_eq!(sentinels.urls().len(), 3);
    let killed = sentinels.kill_primary();
    let next = sentinels.await_primary(killed);
    next.command(&["SET", "a", "1"]).unwrap();
    assert_ne!(next.port(), killed.port());
}
