//! Several groups of servers, each with its share of the keys.

use tollgate_rig::{Cluster, Redis};

use super::*;

fn has(redis: &Redis, tag: &str) -> bool {
    redis.command(&["EXISTS", &key(tag)]).unwrap().int() == Some(1)
}

#[tokio::test]
async fn every_key_is_in_one_group_and_groups_fail_independently() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let named: Vec<String> = servers
        .iter()
        .zip(["x", "y", "z"])
        .map(|(s, name)| format!("{}?name={name}", s.url()))
        .collect();
    let client = open(&patient(&named.join(" "))).await;
    let tags: Vec<String> = (0..60).map(|i| format!("user:{i}")).collect();
    for tag in &tags {
        assert_eq!(client.count(tag).await.unwrap(), 1);
        let home = usize::from(client.route(tag.as_bytes()).group);
        let homes = servers.iter().map(|server| has(server, tag));
        assert_eq!(homes.collect::<Vec<_>>(), [0, 1, 2].map(|group| group == home), "{tag}");
    }
    servers[1].kill();
    let reason = client.await_trouble().await;
    assert!(reason.contains(&servers[1].port().to_string()), "{reason}");
    for tag in &tags {
        let expected = if client.route(tag.as_bytes()).group == 1 { "resting" } else { "well" };
        assert_eq!(kind(&client.count(tag).await), expected, "{tag}");
    }
    let health = client.health();
    let well: Vec<_> =
        health.groups.iter().map(|group| (&*group.name, group.is_healthy())).collect();
    assert_eq!(well, [("x", true), ("y", false), ("z", true)]);
}

#[tokio::test]
async fn a_tag_has_a_route_in_every_group() {
    let (redis, cluster) = (Redis::start(), Cluster::start(3, 0));
    let url = format!("{} redis+cluster://127.0.0.1:{}", redis.url(), cluster.node(2).port());
    let client = open(&patient(&url)).await;
    let routes: Vec<Route> = client.routes(b"beat").collect();
    let slot = cluster.slot_of(&key("beat"));
    assert_eq!(routes, [Route { group: 0, slot: 0 }, Route { group: 1, slot }]);
    for route in routes {
        assert_eq!(client.count_at(route, "beat").await.unwrap(), 1);
    }
}
