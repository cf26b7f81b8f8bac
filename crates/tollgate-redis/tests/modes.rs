//! Leased limits, synced limits and cached refusals, on a real server in real time.

use std::future::Future;
use std::time::Duration;

use tollgate::{Action, Check, Consistency, CounterId, Limit, Store, StoreCall, Verdict};
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::{Cluster, Flavour, Redis};

/// Connects with a long time-out, since the machine may be busy.
async fn connect(url: &str) -> RedisStore {
    let options: Options = url.parse().unwrap();
    let options = options.timeout(Duration::from_secs(20)).unwrap();
    RedisStore::connect(options).await.unwrap()
}

async fn nodes<const N: usize>(redis: &Redis) -> [RedisStore; N] {
    nodes_at(&redis.url()).await
}

async fn nodes_at<const N: usize>(url: &str) -> [RedisStore; N] {
    let mut nodes = Vec::new();
    for _ in 0..N {
        nodes.push(connect(url).await);
    }
    nodes.try_into().expect("the requested number")
}

/// Returns the number of calls about counters.
fn round_trips(redis: &Redis) -> u64 {
    let stats = redis.command(&["INFO", "commandstats"]).unwrap().text();
    let of = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    let calls = |name: &str| -> u64 {
        stats.lines().filter(|line| line.starts_with(name)).filter_map(of).sum()
    };
    // A node sends a heartbeat every second.
    calls("cmdstat_fcall:") - calls("cmdstat_zadd:")
}

fn check(limit: &Limit, cost: u64, consistency: Consistency) -> Check<'_> {
    Check { consistency, ..Check::new(CounterId::new(1), "acme", limit, cost) }
}

async fn run(store: &RedisStore, action: Action, check: Check<'_>) -> Verdict {
    store.run(StoreCall { action, checks: &[check] }).await.unwrap()[0]
}

async fn allowed(store: &RedisStore, check: Check<'_>) -> bool {
    store.decide(&[check]).await.unwrap()[0].allowed
}

/// Asks repeatedly until the answer is yes.
async fn until<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let asking = async {
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        while !done().await {
            tick.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asking).await.expect(what);
}

/// Sends requests to every node until it refuses; several at a time.
async fn hammer(nodes: &[RedisStore], limit: &Limit, mode: Consistency) -> u64 {
    let mut tasks = Vec::new();
    for node in nodes.iter().chain(nodes) {
        let (node, limit) = (node.clone(), limit.clone());
        tasks.push(tokio::spawn(async move {
            let mut admitted = 0;
            while allowed(&node, check(&limit, 1, mode)).await {
                admitted += 1;
                if admitted % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            admitted
        }));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_leased_key_is_never_over_and_calls_seldom() {
    let redis = Redis::start();
    let nodes: [RedisStore; 4] = nodes(&redis).await;
    for text in ["20k/day fixed", "20k/day"] {
        let limit: Limit = text.parse().unwrap();
        run(&nodes[0], Action::Reset, check(&limit, 0, Consistency::Strict)).await;
        let before = round_trips(&redis);
        let admitted = hammer(&nodes, &limit, Consistency::Leased).await;
        let calls = round_trips(&redis) - before;
        println!("{text}: {admitted} admitted with {calls} round trips");
        assert!(admitted * 10 >= 9 * limit.capacity(), "{text}: {admitted}");
        assert!(calls * 50 <= admitted, "{text}: {calls} round trips for {admitted}");
        // All chunks are returned, and no unit was lost or created.
        for node in &nodes {
            node.flush().await;
        }
        let strict = check(&limit, 0, Consistency::Strict);
        let left = run(&nodes[0], Action::Peek, strict).await.remaining;
        // A token takes more than four seconds to refill.
        assert!((limit.capacity()..limit.capacity() + 15).contains(&(admitted + left)), "{left}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synced_nodes_stay_within_the_overshoot_bound() {
    let redis = Redis::start();
    let nodes: [RedisStore; 4] = nodes(&redis).await;
    let limit: Limit = "1000/day fixed".parse().unwrap();
    let node = &nodes[3];
    until("four nodes", || async { node.nodes() == 4 }).await;
    assert_eq!(node.overshoot_bound(), 0);
    let admitted = hammer(&nodes, &limit, Consistency::Synced).await;
    assert_eq!(node.overshoot_bound(), 3_000);
    assert!((1_000..=4_000).contains(&admitted), "{admitted}");
    // After an exchange all nodes refuse, and the store has counted everything.
    for node in &nodes {
        node.flush().await;
    }
    let strict = check(&limit, 0, Consistency::Strict);
    assert_eq!(run(node, Action::Peek, strict).await.remaining, 0);
    let refund = Check { cost: admitted - 1, ..strict };
    assert_eq!(run(node, Action::Refund, refund).await.remaining, 999);
}

#[tokio::test]
async fn synced_nodes_learn_of_each_other() {
    let redis = Redis::start();
    let nodes: [RedisStore; 2] = nodes(&redis).await;
    let limit: Limit = "1000/day fixed".parse().unwrap();
    let synced = check(&limit, 1, Consistency::Synced);
    for node in &nodes {
        for _ in 0..100 {
            assert!(allowed(node, synced).await);
        }
    }
    for node in &nodes {
        until("both know of all", || async {
            run(node, Action::Peek, synced).await.remaining == 800
        })
        .await;
    }
}

#[tokio::test]
async fn an_exhausted_key_costs_no_round_trip_until_its_retry_time() {
    let redis = Redis::start();
    let node = connect(&redis.url()).await;
    let limit: Limit = "1/2s burst 2".parse().unwrap();
    let strict = check(&limit, 1, Consistency::Strict);
    while allowed(&node, strict).await {}
    let before = round_trips(&redis);
    let mut refused = 0;
    until("it passes again", || {
        refused += 1;
        allowed(&node, strict)
    })
    .await;
    assert!(refused > 3, "{refused}");
    assert_eq!(round_trips(&redis) - before, 1);
}

#[tokio::test]
async fn an_idle_chunk_is_returned_automatically() {
    let redis = Redis::start();
    let nodes: [RedisStore; 2] = nodes(&redis).await;
    for text in ["1000/day fixed", "900/day"] {
        let limit: Limit = text.parse().unwrap();
        let [leased, strict] =
            [Consistency::Leased, Consistency::Strict].map(|mode| check(&limit, 1, mode));
        run(&nodes[1], Action::Reset, strict).await;
        for _ in 0..100 {
            assert!(allowed(&nodes[0], leased).await);
        }
        let left = limit.capacity() - 100;
        until("the chunk is back", || async {
            run(&nodes[1], Action::Peek, strict).await.remaining >= left
        })
        .await;
    }
}

async fn nodes_come_and_go(url: &str) {
    let [first, second, third] = nodes_at(url).await;
    assert_eq!(third.nodes(), 3);
    until("the first knows of three", || async { first.nodes() == 3 }).await;
    drop(second);
    until("the second is gone", || async { first.nodes() == 2 }).await;
}

#[tokio::test]
async fn nodes_come_and_go_with_functions() {
    nodes_come_and_go(&Redis::start().url()).await;
}

#[tokio::test]
async fn nodes_come_and_go_without_functions() {
    nodes_come_and_go(&Redis::start_flavour(Flavour::Redis62).url()).await;
}

/// A group that is new or down knows fewer nodes than the others.
#[tokio::test]
async fn nodes_come_and_go_in_groups() {
    let (one, other) = (Redis::start(), Redis::start());
    nodes_come_and_go(&format!("{} {}", one.url(), other.url())).await;
    let [first, second] = nodes_at(&format!("{} {}", one.url(), other.url())).await;
    other.kill();
    until("the first knows of both", || async { first.nodes() == 2 }).await;
    drop(second);
}

/// Counters in several slots, so that one exchange takes several calls.
#[tokio::test]
async fn modes_work_in_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let addresses = cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port()));
    let url = format!("redis+cluster://{}", addresses.collect::<Vec<_>>().join(","));
    let nodes: [RedisStore; 2] = nodes_at(&url).await;
    until("two nodes", || async { nodes[0].nodes() == 2 }).await;
    let limit: Limit = "1000/day fixed".parse().unwrap();
    for mode in [Consistency::Leased, Consistency::Synced] {
        let check = |key: u64| Check {
            consistency: mode,
            ..Check::new(CounterId::new(mode as u64), key, &limit, 1)
        };
        for node in &nodes {
            for key in 0..20 {
                for _ in 0..10 {
                    assert!(allowed(node, check(key)).await);
                }
            }
        }
        for key in 0..20 {
            let strict = Check { consistency: Consistency::Strict, ..check(key) };
            until("the store knows of all", || async {
                run(&nodes[0], Action::Peek, strict).await.remaining == 980
            })
            .await;
        }
    }
}
