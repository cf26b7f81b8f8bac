//! Requests of several priorities on two nodes that share one Redis. The least important are shed
//! first, and critical ones have a reserve.

use std::time::Duration;

use tollgate::Store;
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::Redis;
use tollgate_rules::{Decision, Request, RuleLimiter, Rules};

/// Connects a node with a long time-out, since the machine may be busy.
async fn node(redis: &Redis, rules: &str) -> RuleLimiter<RedisStore> {
    let options: Options = format!("redis://127.0.0.1:{}", redis.port()).parse().unwrap();
    let options = options.timeout(Duration::from_secs(20)).unwrap();
    let store = RedisStore::connect(options).await.unwrap();
    let rules: Rules = rules.parse().unwrap();
    RuleLimiter::builder().store(store).build(rules)
}

fn rules(more: &str) -> String {
    format!(
        "rules: [{{ name: fleet, limit: 100/day, then: shed, on_error: deny, priority: 'header[\"x-priority\"]'{more} }}]"
    )
}

async fn ask(node: &RuleLimiter<RedisStore>, priority: &str) -> Decision {
    node.decide(&Request::new("GET", "/").header("x-priority", priority)).await
}

/// Returns how many of 60 requests passed on two nodes in turn.
async fn passed(nodes: &[RuleLimiter<RedisStore>; 2], priority: &str) -> usize {
    let mut passed = 0;
    for turn in 0..120 {
        let decision = ask(&nodes[turn % 2], priority).await;
        assert_ne!(decision.reason.as_str(), "store_failed");
        passed += usize::from(decision.allowed);
    }
    passed
}

#[tokio::test]
async fn lower_priorities_are_shed_first_on_every_node() {
    let redis = Redis::start();
    let rules = rules("");
    let nodes = [node(&redis, &rules).await, node(&redis, &rules).await];
    assert_eq!(passed(&nodes, "batch").await, 50);
    assert_eq!(passed(&nodes, "normal").await, 30);
    assert_eq!(passed(&nodes, "critical").await, 20);
    let refused = ask(&nodes[0], "batch").await;
    assert_eq!(refused.code, 503);
    // 51 units must be left, and they refill at 100 a day.
    let retry = refused.retry_after.unwrap();
    assert!(
        retry > Duration::from_secs(50 * 864) && retry <= Duration::from_secs(51 * 864),
        "{retry:?}"
    );
}

/// Checks with a reserve are decided at the store, others from the lease.
#[tokio::test]
async fn leased_limits_keep_the_reserve_as_well() {
    let redis = Redis::start();
    let rules = rules(", consistency: leased");
    let nodes = [node(&redis, &rules).await, node(&redis, &rules).await];
    assert!(ask(&nodes[0], "critical").await.allowed);
    let batch = passed(&nodes, "batch").await;
    assert!(batch <= 49, "{batch}: leased units count as spent for other nodes");
    let normal = passed(&nodes, "normal").await;
    assert!(batch + normal <= 79, "{batch} and {normal}");
    let critical = passed(&nodes, "critical").await;
    assert!(critical >= 1, "what was leased and not spent in time may be lost, not all of it");
    assert!(1 + batch + normal + critical <= 100, "{batch}, {normal} and {critical}");
}

/// Each node guarantees its part of the limit; together they never admit more than the limit.
#[tokio::test]
async fn tenants_share_fairly_on_every_node() {
    let redis = Redis::start();
    let rules = "attributes: [org]\nrules: [{ name: api, limit: 100/day, on_error: deny, fair: { by: org } }]";
    let nodes = [node(&redis, rules).await, node(&redis, rules).await];
    // Each node guarantees a half once it knows of the other.
    let known = async {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while nodes.iter().any(|node| node.store().nodes() < 2) {
            tick.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), known).await.expect("they hear of each other");
    let ask = async |node: usize, org: &str| {
        nodes[node].decide(&Request::new("GET", "/").attribute("org", org)).await.allowed
    };
    for node in 0..2 {
        assert!(ask(node, "polite").await);
    }
    let mut greedy = 0;
    for turn in 0..200 {
        greedy += usize::from(ask(turn % 2, "greedy").await);
    }
    assert!((20..=60).contains(&greedy), "{greedy}: it leaves what is promised to the other");
    let mut polite = 0;
    for turn in 0..200 {
        polite += usize::from(ask(turn % 2, "polite").await);
    }
    assert!(polite >= 38, "{polite}");
    assert!(2 + greedy + polite <= 100, "{greedy} and {polite}");
}
