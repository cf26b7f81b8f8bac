//! Failing servers and networks: what a failure costs, and that nothing is executed twice.

use tollgate_rig::{Flavour, Proxy, Redis, Setup};

use super::*;

/// A time-out that the tests reach.
const SHORT: Duration = Duration::from_millis(50);
/// The meaning of "at once" on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(20);

fn short(url: &str) -> Options {
    options(url).timeout(SHORT).unwrap()
}

/// Calls until one fails without being sent, and returns the duration of the longest call.
async fn longest_until_resting(client: &RedisClient) -> Duration {
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let call = Instant::now();
        let outcome = client.count("a").await;
        longest = longest.max(call.elapsed());
        if kind(&outcome) == "resting" {
            return longest;
        }
        assert!(started.elapsed() < PATIENCE, "{outcome:?}");
    }
}

/// Returns the durations of many calls, the shortest first.
async fn times(client: &RedisClient, calls: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..calls {
        let call = Instant::now();
        let _ = client.count("a").await;
        times.push(call.elapsed());
    }
    times.sort();
    times
}

fn count_of(redis: &Redis) -> i64 {
    redis.command(&["GET", &key("a")]).unwrap().text().parse().unwrap_or(0)
}

#[tokio::test]
async fn a_stopped_server_costs_one_time_out_and_then_nothing() {
    let redis = Redis::start();
    let client = open(&short(&redis.url())).await;
    client.count_until_well("a").await;
    redis.stop();
    let longest = longest_until_resting(&client).await;
    assert!(longest < SHORT + Duration::from_millis(200), "{longest:?}");
    let resting = times(&client, 1000).await;
    assert!(resting[500] < Duration::from_millis(1), "p50 {:?}", resting[500]);
    sleep(Duration::from_millis(500)).await;
    let stopped = Instant::now();
    redis.cont();
    let took = client.count_until_well("a").await;
    eprintln!(
        "longest call {longest:?}; resting: p50 {:?}, p99 {:?}; well {took:?} after",
        resting[500], resting[990]
    );
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_calls_fail_when_a_server_is_found_silent() {
    let redis = Redis::start();
    let options = options(&redis.url()).timeout(Duration::from_secs(3)).unwrap();
    let client = open(&options).await;
    client.count("a").await.unwrap();
    redis.stop();
    let early = tokio::spawn({
        let client = client.clone();
        async move { client.count("a").await }
    });
    sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    assert_eq!(kind(&client.count("a").await), "timeout");
    assert!(started.elapsed() < Duration::from_millis(2_700), "{:?}", started.elapsed());
    assert_eq!(kind(&early.await.unwrap()), "timeout");
}

#[tokio::test]
async fn a_killed_server_is_noticed_without_a_call() {
    let redis = Redis::start();
    let client = open(&patient(&redis.url())).await;
    client.count("a").await.unwrap();
    redis.kill();
    let reason = client.await_trouble().await;
    assert!(reason.contains("cannot be reached"), "{reason}");
    let call = Instant::now();
    assert_eq!(kind(&client.count("a").await), "resting");
    assert!(call.elapsed() < AT_ONCE, "{:?}", call.elapsed());
    redis.restart();
    let took = client.recover().await;
    eprintln!("well {took:?} after it was started again");
    assert_eq!(client.count("a").await.unwrap(), 1);
}

#[tokio::test]
async fn a_missing_server_is_probed() {
    let redis = Redis::start();
    redis.kill();
    let client = open(&patient(&redis.url())).await;
    let outcome = client.count("a").await;
    assert_eq!(kind(&outcome), "resting", "{outcome:?}");
    redis.restart();
    client.recover().await;
    assert_eq!(client.count("a").await.unwrap(), 1);
}

#[tokio::test]
async fn dripping_bytes_are_not_a_reply() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let client = open(&short(&proxy.url())).await;
    client.count_until_well("a").await;
    proxy.drip(true);
    let longest = longest_until_resting(&client).await;
    assert!(longest < SHORT + Duration::from_millis(200), "{longest:?}");
    let resting = times(&client, 100).await;
    assert!(resting[50] < Duration::from_millis(1), "{:?}", resting[50]);
    proxy.drip(false);
    client.count_until_well("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_cause_no_second_execution() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let client = open(&patient(&proxy.url())).await;
    let (mut sent, mut answered) = (0, 0);
    for round in 0..20 {
        proxy.swallow_replies(round % 2 == 1);
        for _ in 0..5 {
            sent += 1;
            match client.count("a").await {
                Ok(_) => answered += 1,
                Err(CallError::ServerDown { .. }) => sent -= 1,
                Err(_) => {}
            }
        }
        proxy.swallow_replies(false);
        client.recover().await;
    }
    assert!(proxy.swallowed() > 0);
    let counted = count_of(&redis);
    assert!(answered < sent && answered <= counted && counted <= sent, "{counted} of {sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_cause_no_second_execution() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let client = open(&patient(&proxy.url())).await;
    let load = tokio::spawn({
        let client = client.clone();
        async move { hammer(&client, 8, 400, "a").await }
    });
    let mut cuts = 0;
    while !load.is_finished() {
        proxy.cut();
        cuts += 1;
        sleep(Duration::from_millis(10)).await;
    }
    let (done, outages) = load.await.unwrap();
    let resting = |error: &&CallError| matches!(error, CallError::ServerDown { .. });
    let unknown = outages.len() - outages.iter().filter(resting).count();
    let counted = count_of(&redis);
    eprintln!("{cuts} cuts, {done} done, {unknown} unknown, {} not sent", outages.len() - unknown);
    assert!(cuts > 3, "the load was over after {cuts} cuts");
    assert!(done <= counted && counted <= done + unknown as i64, "{counted} for {done}+{unknown}");
}

#[tokio::test]
async fn a_broken_connection_is_replaced_while_the_other_works() {
    let redis = Redis::start();
    let client = open(&patient(&redis.url())).await;
    client.count("a").await.unwrap();
    let clients = || {
        let list = redis.command(&["CLIENT", "LIST"]).unwrap().text();
        let ours = list.lines().filter(|line| !line.contains("cmd=client|list"));
        ours.map(|line| line.split(' ').next().unwrap()[3..].to_owned()).collect::<Vec<_>>()
    };
    tollgate_rig::until("both connections are there", || clients().len() == 2);
    let before = clients();
    redis.command(&["CLIENT", "KILL", "ID", &before[0]]).unwrap();
    for _ in 0..1_000 {
        if let Err(error) = client.count("a").await {
            assert!(matches!(error, CallError::Unreachable { .. }), "{error}");
        }
    }
    tollgate_rig::until("the second one is replaced", || clients().len() == 2);
    assert!(clients().contains(&before[1]));
    assert!(client.health().is_healthy());
}

#[tokio::test]
async fn a_server_without_memory_is_down_until_it_has_some() {
    for flavour in [Flavour::Redis7, Flavour::Redis62] {
        let redis = Setup::new(flavour).args(["--maxmemory-policy", "noeviction"]).start();
        let client = open(&patient(&redis.url())).await;
        client.count("a").await.unwrap();
        redis.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        let outcome = client.count("a").await;
        assert_eq!(kind(&outcome), "refused", "{outcome:?}");
        assert!(outcome.unwrap_err().to_string().contains("(maxmemory)"));
        let reason = rests(&client).await;
        assert!(reason.contains("OOM"), "{reason}");
        redis.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        client.recover().await;
        assert_eq!(client.count("a").await.unwrap(), 2);
    }
}

#[tokio::test]
async fn a_replica_is_down_until_it_is_a_master() {
    let redis = Redis::start();
    let client = open(&patient(&redis.url())).await;
    client.count("a").await.unwrap();
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let reason = rests(&client).await;
    assert!(reason.contains("READONLY") && reason.contains("redis+sentinel"), "{reason}");
    redis.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    client.recover().await;
    assert_eq!(client.count("a").await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_without_its_master_is_down() {
    let redis = Redis::start_with(&["--replica-serve-stale-data", "no"]);
    let client = open(&patient(&redis.url())).await;
    client.count("a").await.unwrap();
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    rests(&client).await;
    // The replica first refuses writes; the probe then finds the reason.
    tollgate_rig::until("it is known that the master is missing", || {
        client.health().groups[0].outages.iter().any(|outage| outage.reason.contains("MASTERDOWN"))
    });
    redis.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    client.recover().await;
}

#[tokio::test]
async fn a_server_blocked_by_a_script_is_down() {
    let redis = Redis::start_with(&["--busy-reply-threshold", "10"]);
    let client = open(&patient(&redis.url())).await;
    client.count("a").await.unwrap();
    let mut busy = redis.client().unwrap();
    busy.send(&["EVAL", "while true do end", "0"]).unwrap();
    let reason = rests(&client).await;
    assert!(reason.contains("BUSY") && reason.contains("SCRIPT KILL"), "{reason}");
    redis.command(&["SCRIPT", "KILL"]).unwrap();
    client.recover().await;
    client.count("a").await.unwrap();
}

#[tokio::test]
async fn a_loading_server_is_down() {
    let redis = Redis::start_with(&[
        "--key-load-delay",
        "200",
        "--loading-process-events-interval-bytes",
        "1024",
        "--enable-debug-command",
        "yes",
    ]);
    let client = open(&patient(&redis.url())).await;
    redis.command(&["DEBUG", "POPULATE", "20000", "key", "10"]).unwrap();
    let mut busy = redis.client().unwrap();
    busy.send(&["DEBUG", "RELOAD"]).unwrap();
    let reason = rests(&client).await;
    assert!(reason.contains("LOADING"), "{reason}");
    redis.command(&["CONFIG", "SET", "key-load-delay", "0"]).unwrap();
    client.recover().await;
    client.count("a").await.unwrap();
}

/// Calls until the server is marked down, and returns the reason.
async fn rests(client: &RedisClient) -> String {
    longest_until_resting(client).await;
    client.await_trouble().await
}
