//! The faults of servers, and their repair.

use std::time::Duration;

use tollgate_rig::{Cluster, Flavour, Proxy, Redis, Sentinels, Setup};

use crate::load::{CallRecord, Load};

/// A fault and its repair.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Whether clients must not notice: not one call may fail.
    pub(crate) harmless: bool,
    run: fn() -> ScenarioResult,
}

/// The result of a scenario.
pub(crate) struct ScenarioResult {
    pub(crate) calls: Vec<CallRecord>,
    /// The total charged at the store; `None` if a server lost its data.
    pub(crate) charged: Option<u64>,
    pub(crate) fault_at: Duration,
    pub(crate) repaired_at: Duration,
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "stop", what: "SIGSTOP of the primary for 5 s", harmless: false, run: stop },
    Scenario {
        name: "kill",
        what: "kill -9 of the primary, restarted after 2 s",
        harmless: false,
        run: kill,
    },
    Scenario {
        name: "sentinel",
        what: "kill -9 of the primary, Sentinel promotes the replica",
        harmless: false,
        run: sentinel,
    },
    Scenario {
        name: "reshard",
        what: "1,000 slots of a cluster move under load",
        harmless: true,
        run: reshard,
    },
    Scenario {
        name: "flush",
        what: "SCRIPT FLUSH and FUNCTION FLUSH every second",
        harmless: true,
        run: flush,
    },
    Scenario { name: "oom", what: "OOM for 2 s", harmless: false, run: oom },
    Scenario { name: "readonly", what: "READONLY for 2 s", harmless: false, run: readonly },
    Scenario {
        name: "loading",
        what: "LOADING for about 2 s after a restart",
        harmless: false,
        run: loading,
    },
    Scenario {
        name: "busy",
        what: "BUSY with a script of another client for 2 s",
        harmless: false,
        run: busy,
    },
    Scenario {
        name: "swallow",
        what: "replies swallowed, connections cut for 2 s",
        harmless: false,
        run: swallow,
    },
    Scenario { name: "drip", what: "one byte a second for 3 s", harmless: false, run: drip },
];

/// The time before a fault, and after its repair.
const CALM: Duration = Duration::from_millis(1500);
const OUTAGE: Duration = Duration::from_secs(2);

pub(crate) fn run(scenario: &Scenario) -> ScenarioResult {
    (scenario.run)()
}

/// Causes a fault, waits, and repairs it.
fn outage(
    url: &str,
    fault: impl FnOnce(),
    outage: Duration,
    repair: impl FnOnce(),
) -> ScenarioResult {
    let load = Load::start(url);
    load.run_for(CALM);
    let fault_at = load.now();
    fault();
    load.run_for(outage);
    repair();
    let repaired_at = load.now();
    load.run_for(CALM);
    let (calls, charged) = load.end();
    ScenarioResult { calls, charged, fault_at, repaired_at }
}

fn command(redis: &Redis, args: &[&str]) {
    let reply = redis.command(args).unwrap_or_else(|error| panic!("{args:?}: {error}"));
    assert!(!matches!(reply, tollgate_rig::Reply::Error(_)), "{args:?}: {reply:?}");
}

fn stop() -> ScenarioResult {
    let redis = Redis::start();
    outage(&redis.url(), || redis.stop(), Duration::from_secs(5), || redis.cont())
}

fn kill() -> ScenarioResult {
    let redis = Redis::start();
    let result = outage(&redis.url(), || redis.kill(), OUTAGE, || redis.restart());
    ScenarioResult { charged: None, ..result }
}

fn sentinel() -> ScenarioResult {
    let sentinels = Sentinels::start();
    let addresses: Vec<String> = sentinels.urls().iter().map(|url| address(url)).collect();
    let url = format!("redis+sentinel://{}/{}", addresses.join(","), sentinels.name());
    let load = Load::start(&url);
    load.run_for(CALM);
    let fault_at = load.now();
    let former = sentinels.kill_primary();
    sentinels.await_primary(former);
    let repaired_at = load.now();
    load.run_for(CALM);
    let (calls, _) = load.end();
    ScenarioResult { calls, charged: None, fault_at, repaired_at }
}

fn reshard() -> ScenarioResult {
    let cluster = Cluster::start(3, 0);
    let addresses: Vec<String> = cluster.urls().iter().map(|url| address(url)).collect();
    let url = format!("redis+cluster://{}", addresses.join(","));
    outage(&url, || cluster.move_slots(0, 1, 1000), Duration::ZERO, || {})
}

/// Returns the host and port of a URL.
fn address(url: &str) -> String {
    url.rsplit('/').next().unwrap_or(url).to_owned()
}

fn flush() -> ScenarioResult {
    let redis = Redis::start();
    let flush = || {
        command(&redis, &["SCRIPT", "FLUSH"]);
        command(&redis, &["FUNCTION", "FLUSH"]);
    };
    let often = || {
        for _ in 0..5 {
            flush();
            std::thread::park_timeout(Duration::from_secs(1));
        }
    };
    outage(&redis.url(), often, Duration::ZERO, || {})
}

fn oom() -> ScenarioResult {
    let redis = Redis::start();
    outage(
        &redis.url(),
        || command(&redis, &["CONFIG", "SET", "maxmemory", "1"]),
        OUTAGE,
        || command(&redis, &["CONFIG", "SET", "maxmemory", "0"]),
    )
}

fn readonly() -> ScenarioResult {
    let redis = Redis::start();
    outage(
        &redis.url(),
        || command(&redis, &["REPLICAOF", "127.0.0.1", "1"]),
        OUTAGE,
        || command(&redis, &["REPLICAOF", "NO", "ONE"]),
    )
}

fn loading() -> ScenarioResult {
    let redis = Setup::new(Flavour::Redis7).args(["--key-load-delay", "500"]).start();
    let fill = "for i = 1, 4000 do redis.call('SET', 'filler' .. i, i) end";
    command(&redis, &["EVAL", fill, "0"]);
    let loaded = || {
        tollgate_rig::until("the server has loaded", || {
            redis.command(&["SET", "probe", "1"]).is_ok_and(|reply| reply.text() == "OK")
        });
    };
    let fault = || {
        command(&redis, &["SAVE"]);
        redis.kill();
        redis.restart();
    };
    let result = outage(&redis.url(), fault, Duration::ZERO, loaded);
    // Charges between the save and the kill are lost.
    ScenarioResult { charged: None, ..result }
}

fn busy() -> ScenarioResult {
    let redis = Setup::new(Flavour::Redis7).args(["--busy-reply-threshold", "20"]).start();
    let mut other = redis.client().expect("it runs");
    let fault = || {
        other.send(&["EVAL", "while true do end", "0"]).expect("it listens");
    };
    outage(&redis.url(), fault, OUTAGE, || {
        let _ = redis.command(&["SCRIPT", "KILL"]);
    })
}

fn swallow() -> ScenarioResult {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let (fault, repair) = (|| proxy.swallow_replies(true), || proxy.swallow_replies(false));
    outage(&proxy.url(), fault, OUTAGE, repair)
}

fn drip() -> ScenarioResult {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    outage(&proxy.url(), || proxy.drip(true), Duration::from_secs(3), || proxy.drip(false))
}
