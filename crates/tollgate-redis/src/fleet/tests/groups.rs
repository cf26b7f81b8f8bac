//! Several groups of servers, each with its share of the keys.

use tollgate_rig::{Cluster, Redis};

use super::*;

fn has(redis: &Redis, tag: &str) -> bool {
    redis.command(&["EXISTS", &key(tag)]).unwrap().int() == Some(1)
}

#[tokio::test]
async fn every_key_is_in_one_group_and_trouble_of_one_is_not_that_of_the_others() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let named: Vec<String> = servers
        .iter()
        .zip(["x", "y", "z"])
        .map(|(s, name)| format!("{}?name={name}", s.url()))
        .collect();
    let fleet = open(&patient(&named.join(" "))).await;
    let tags: Vec<String> = (0..60).map(|i| format!("user:{i}")).collect();
    for tag in &tags {
        assert_eq!(fleet.count(tag).await.unwrap(), 1);
        let home = usize::from(fleet.place(tag.as_bytes()).group);
        let homes = servers.iter().map(|server| has(server, tag));
        assert_eq!(homes.collect::<Vec<_>>(), [0, 1, 2].map(|group| group == home), "{tag}");
    }
    servers[1].kill();
    let why = fleet.await_trouble().await;
    assert!(why.contains(&servers[1].port().to_string()), "{why}");
    for tag in &tags {
        let expected = if fleet.place(tag.as_bytes()).group == 1 { "resting" } else { "well" };
        assert_eq!(kind(&fleet.count(tag).await), expected, "{tag}");
    }
    let health = fleet.health();
    let well: Vec<_> = health.groups.iter().map(|group| (&*group.name, group.is_well())).collect();
    assert_eq!(well, [("x", true), ("y", false), ("z", true)]);
}

#[tokio::test]
async fn a_tag_has_a_place_in_every_group() {
    let (redis, cluster) = (Redis::start(), Cluster::start(3, 0));
    let url = format!("{} redis+cluster://127.0.0.1:{}", redis.url(), cluster.node(2).port());
    let fleet = open(&patient(&url)).await;
    let places: Vec<Place> = fleet.places(b"beat").collect();
    let slot = cluster.slot_of(&key("beat"));
    assert_eq!(places, [Place { group: 0, slot: 0 }, Place { group: 1, slot }]);
    for place in places {
        assert_eq!(fleet.count_at(place, "beat").await.unwrap(), 1);
    }
}
