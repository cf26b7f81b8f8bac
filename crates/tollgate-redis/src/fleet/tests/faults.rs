//! Servers and networks in trouble: what it costs, and that nothing is executed twice.

use tollgate_rig::{Flavour, Proxy, Redis, Setup};

use super::*;

/// A time-out that is meant to be seen.
const SHORT: Duration = Duration::from_millis(50);
/// What "at once" means on a machine that has other things to do.
const AT_ONCE: Duration = Duration::from_millis(20);

fn short(url: &str) -> Options {
    options(url).timeout(SHORT).unwrap()
}

/// Calls until one is answered without asking, and says how long the longest call took.
async fn longest_until_resting(fleet: &Fleet) -> Duration {
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let call = Instant::now();
        let outcome = fleet.count("a").await;
        longest = longest.max(call.elapsed());
        if kind(&outcome) == "resting" {
            return longest;
        }
        assert!(started.elapsed() < PATIENCE, "{outcome:?}");
    }
}

/// The times of many calls, the shortest first.
async fn times(fleet: &Fleet, calls: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..calls {
        let call = Instant::now();
        let _ = fleet.count("a").await;
        times.push(call.elapsed());
    }
    times.sort();
    times
}

fn count_of(redis: &Redis) -> i64 {
    redis.command(&["GET", &key("a")]).unwrap().text().parse().unwrap_or(0)
}

#[tokio::test]
async fn a_server_that_stops_costs_one_time_out_and_then_nothing() {
    let redis = Redis::start();
    let fleet = open(&short(&redis.url())).await;
    fleet.count_until_well("a").await;
    redis.stop();
    let longest = longest_until_resting(&fleet).await;
    assert!(longest < SHORT + Duration::from_millis(200), "{longest:?}");
    let resting = times(&fleet, 1000).await;
    assert!(resting[500] < Duration::from_millis(1), "p50 {:?}", resting[500]);
    sleep(Duration::from_millis(500)).await;
    let stopped = Instant::now();
    redis.cont();
    let took = fleet.count_until_well("a").await;
    eprintln!(
        "longest call {longest:?}; resting: p50 {:?}, p99 {:?}; well {took:?} after",
        resting[500], resting[990]
    );
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_when_a_server_is_found_silent_is_told_at_once() {
    let redis = Redis::start();
    let options = options(&redis.url()).timeout(Duration::from_secs(3)).unwrap();
    let fleet = open(&options).await;
    fleet.count("a").await.unwrap();
    redis.stop();
    let early = tokio::spawn({
        let fleet = fleet.clone();
        async move { fleet.count("a").await }
    });
    sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    assert_eq!(kind(&fleet.count("a").await), "timeout");
    assert!(started.elapsed() < Duration::from_millis(2_700), "{:?}", started.elapsed());
    assert_eq!(kind(&early.await.unwrap()), "timeout");
}

#[tokio::test]
async fn a_server_that_is_killed_is_noticed_without_being_asked() {
    let redis = Redis::start();
    let fleet = open(&patient(&redis.url())).await;
    fleet.count("a").await.unwrap();
    redis.kill();
    let why = fleet.await_trouble().await;
    assert!(why.contains("cannot be reached"), "{why}");
    let call = Instant::now();
    assert_eq!(kind(&fleet.count("a").await), "resting");
    assert!(call.elapsed() < AT_ONCE, "{:?}", call.elapsed());
    redis.restart();
    let took = fleet.recover().await;
    eprintln!("well {took:?} after it was started again");
    assert_eq!(fleet.count("a").await.unwrap(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_looked_for() {
    let redis = Redis::start();
    redis.kill();
    let fleet = open(&patient(&redis.url())).await;
    let outcome = fleet.count("a").await;
    assert_eq!(kind(&outcome), "resting", "{outcome:?}");
    redis.restart();
    fleet.recover().await;
    assert_eq!(fleet.count("a").await.unwrap(), 1);
}

#[tokio::test]
async fn bytes_that_drip_are_no_answer() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let fleet = open(&short(&proxy.url())).await;
    fleet.count_until_well("a").await;
    proxy.drip(true);
    let longest = longest_until_resting(&fleet).await;
    assert!(longest < SHORT + Duration::from_millis(200), "{longest:?}");
    let resting = times(&fleet, 100).await;
    assert!(resting[50] < Duration::from_millis(1), "{:?}", resting[50]);
    proxy.drip(false);
    fleet.count_until_well("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_lost_do_not_make_anything_happen_twice() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let fleet = open(&patient(&proxy.url())).await;
    let (mut asked, mut answered) = (0, 0);
    for round in 0..20 {
        proxy.swallow_replies(round % 2 == 1);
        for _ in 0..5 {
            asked += 1;
            match fleet.count("a").await {
                Ok(_) => answered += 1,
                Err(Trouble::Resting { .. }) => asked -= 1,
                Err(_) => {}
            }
        }
        proxy.swallow_replies(false);
        fleet.recover().await;
    }
    assert!(proxy.swallowed() > 0);
    let counted = count_of(&redis);
    assert!(answered < asked && answered <= counted && counted <= asked, "{counted} of {asked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_do_not_make_anything_happen_twice() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let fleet = open(&patient(&proxy.url())).await;
    let load = tokio::spawn({
        let fleet = fleet.clone();
        async move { hammer(&fleet, 8, 400, "a").await }
    });
    let mut cuts = 0;
    while !load.is_finished() {
        proxy.cut();
        cuts += 1;
        sleep(Duration::from_millis(10)).await;
    }
    let (done, troubles) = load.await.unwrap();
    let resting = |trouble: &&Trouble| matches!(trouble, Trouble::Resting { .. });
    let unknown = troubles.len() - troubles.iter().filter(resting).count();
    let counted = count_of(&redis);
    eprintln!("{cuts} cuts, {done} done, {unknown} unknown, {} not sent", troubles.len() - unknown);
    assert!(cuts > 3, "the load was over after {cuts} cuts");
    assert!(done <= counted && counted <= done + unknown as i64, "{counted} for {done}+{unknown}");
}

#[tokio::test]
async fn one_connection_that_breaks_is_replaced_while_the_others_go_on() {
    let redis = Redis::start();
    let fleet = open(&patient(&redis.url())).await;
    fleet.count("a").await.unwrap();
    let clients = || {
        let list = redis.command(&["CLIENT", "LIST"]).unwrap().text();
        let ours = list.lines().filter(|line| !line.contains("cmd=client|list"));
        ours.map(|line| line.split(' ').next().unwrap()[3..].to_owned()).collect::<Vec<_>>()
    };
    tollgate_rig::until("both connections are there", || clients().len() == 2);
    let before = clients();
    redis.command(&["CLIENT", "KILL", "ID", &before[0]]).unwrap();
    for _ in 0..1_000 {
        if let Err(trouble) = fleet.count("a").await {
            assert!(matches!(trouble, Trouble::Unreachable { .. }), "{trouble}");
        }
    }
    tollgate_rig::until("the second one is replaced", || clients().len() == 2);
    assert!(clients().contains(&before[1]));
    assert!(fleet.health().is_well());
}

#[tokio::test]
async fn a_server_without_memory_is_left_alone_until_it_has_some() {
    for flavour in [Flavour::Redis7, Flavour::Redis62] {
        let redis = Setup::new(flavour).args(["--maxmemory-policy", "noeviction"]).start();
        let fleet = open(&patient(&redis.url())).await;
        fleet.count("a").await.unwrap();
        redis.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        let outcome = fleet.count("a").await;
        assert_eq!(kind(&outcome), "refused", "{outcome:?}");
        assert!(outcome.unwrap_err().to_string().contains("(maxmemory)"));
        let why = rests(&fleet).await;
        assert!(why.contains("OOM"), "{why}");
        redis.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        fleet.recover().await;
        assert_eq!(fleet.count("a").await.unwrap(), 2);
    }
}

#[tokio::test]
async fn a_replica_is_left_alone_until_it_is_a_master() {
    let redis = Redis::start();
    let fleet = open(&patient(&redis.url())).await;
    fleet.count("a").await.unwrap();
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let why = rests(&fleet).await;
    assert!(why.contains("READONLY") && why.contains("redis+sentinel"), "{why}");
    redis.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    fleet.recover().await;
    assert_eq!(fleet.count("a").await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_without_its_master_is_left_alone() {
    let redis = Redis::start_with(&["--replica-serve-stale-data", "no"]);
    let fleet = open(&patient(&redis.url())).await;
    fleet.count("a").await.unwrap();
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    rests(&fleet).await;
    // At first it says that it may not write, and whoever looks after it learns why.
    tollgate_rig::until("it is known that the master is missing", || {
        fleet.health().groups[0].troubles.iter().any(|trouble| trouble.why.contains("MASTERDOWN"))
    });
    redis.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    fleet.recover().await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_left_alone() {
    let redis = Redis::start_with(&["--busy-reply-threshold", "10"]);
    let fleet = open(&patient(&redis.url())).await;
    fleet.count("a").await.unwrap();
    let mut client = redis.client().unwrap();
    client.send(&["EVAL", "while true do end", "0"]).unwrap();
    let why = rests(&fleet).await;
    assert!(why.contains("BUSY") && why.contains("SCRIPT KILL"), "{why}");
    redis.command(&["SCRIPT", "KILL"]).unwrap();
    fleet.recover().await;
    fleet.count("a").await.unwrap();
}

#[tokio::test]
async fn a_server_that_reads_its_data_is_left_alone() {
    let redis = Redis::start_with(&[
        "--key-load-delay",
        "200",
        "--loading-process-events-interval-bytes",
        "1024",
        "--enable-debug-command",
        "yes",
    ]);
    let fleet = open(&patient(&redis.url())).await;
    redis.command(&["DEBUG", "POPULATE", "20000", "key", "10"]).unwrap();
    let mut client = redis.client().unwrap();
    client.send(&["DEBUG", "RELOAD"]).unwrap();
    let why = rests(&fleet).await;
    assert!(why.contains("LOADING"), "{why}");
    redis.command(&["CONFIG", "SET", "key-load-delay", "0"]).unwrap();
    fleet.recover().await;
    fleet.count("a").await.unwrap();
}

/// Calls until the server is left alone, and says why it is.
async fn rests(fleet: &Fleet) -> String {
    longest_until_resting(fleet).await;
    fleet.await_trouble().await
}
