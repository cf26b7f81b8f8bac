//! How servers misbehave, and how they come back.

use std::time::Duration;

use tollgate_rig::{Cluster, Flavour, Proxy, Redis, Sentinels, Setup};

use crate::load::{Load, Seen};

/// A way to hurt a server.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The server stays well for callers: not one call may fail.
    pub(crate) harmless: bool,
    run: fn() -> Story,
}

/// What happened.
pub(crate) struct Story {
    pub(crate) seen: Vec<Seen>,
    /// What is charged at the store in the end; none if what was charged was lost with a server.
    pub(crate) charged: Option<u64>,
    pub(crate) hurt_at: Duration,
    pub(crate) healed_at: Duration,
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
        what: "BUSY with somebody's script for 2 s",
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

/// Before a server is hurt, and after it came back.
const CALM: Duration = Duration::from_millis(1500);
const OUTAGE: Duration = Duration::from_secs(2);

pub(crate) fn run(scenario: &Scenario) -> Story {
    (scenario.run)()
}

/// Hurts for a while, then heals.
fn outage(url: &str, hurt: impl FnOnce(), outage: Duration, heal: impl FnOnce()) -> Story {
    let load = Load::start(url);
    load.go_on(CALM);
    let hurt_at = load.now();
    hurt();
    load.go_on(outage);
    heal();
    let healed_at = load.now();
    load.go_on(CALM);
    let (seen, charged) = load.end();
    Story { seen, charged, hurt_at, healed_at }
}

fn ask(redis: &Redis, words: &[&str]) {
    let reply = redis.command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(!matches!(reply, tollgate_rig::Reply::Error(_)), "{words:?}: {reply:?}");
}

fn stop() -> Story {
    let redis = Redis::start();
    outage(&redis.url(), || redis.stop(), Duration::from_secs(5), || redis.cont())
}

fn kill() -> Story {
    let redis = Redis::start();
    let story = outage(&redis.url(), || redis.kill(), OUTAGE, || redis.restart());
    Story { charged: None, ..story }
}

fn sentinel() -> Story {
    let sentinels = Sentinels::start();
    let addresses: Vec<String> = sentinels.urls().iter().map(|url| address(url)).collect();
    let url = format!("redis+sentinel://{}/{}", addresses.join(","), sentinels.name());
    let load = Load::start(&url);
    load.go_on(CALM);
    let hurt_at = load.now();
    let former = sentinels.kill_primary();
    sentinels.await_primary(former);
    let healed_at = load.now();
    load.go_on(CALM);
    let (seen, _) = load.end();
    Story { seen, charged: None, hurt_at, healed_at }
}

fn reshard() -> Story {
    let cluster = Cluster::start(3, 0);
    let addresses: Vec<String> = cluster.urls().iter().map(|url| address(url)).collect();
    let url = format!("redis+cluster://{}", addresses.join(","));
    outage(&url, || cluster.move_slots(0, 1, 1000), Duration::ZERO, || {})
}

/// Host and port of an address.
fn address(url: &str) -> String {
    url.rsplit('/').next().unwrap_or(url).to_owned()
}

fn flush() -> Story {
    let redis = Redis::start();
    let flush = || {
        ask(&redis, &["SCRIPT", "FLUSH"]);
        ask(&redis, &["FUNCTION", "FLUSH"]);
    };
    let often = || {
        for _ in 0..5 {
            flush();
            std::thread::park_timeout(Duration::from_secs(1));
        }
    };
    outage(&redis.url(), often, Duration::ZERO, || {})
}

fn oom() -> Story {
    let redis = Redis::start();
    outage(
        &redis.url(),
        || ask(&redis, &["CONFIG", "SET", "maxmemory", "1"]),
        OUTAGE,
        || ask(&redis, &["CONFIG", "SET", "maxmemory", "0"]),
    )
}

fn readonly() -> Story {
    let redis = Redis::start();
    outage(
        &redis.url(),
        || ask(&redis, &["REPLICAOF", "127.0.0.1", "1"]),
        OUTAGE,
        || ask(&redis, &["REPLICAOF", "NO", "ONE"]),
    )
}

fn loading() -> Story {
    let redis = Setup::new(Flavour::Redis7).args(["--key-load-delay", "500"]).start();
    let fill = "for i = 1, 4000 do redis.call('SET', 'filler' .. i, i) end";
    ask(&redis, &["EVAL", fill, "0"]);
    let loaded = || {
        tollgate_rig::until("the server has loaded", || {
            redis.command(&["SET", "probe", "1"]).is_ok_and(|reply| reply.text() == "OK")
        });
    };
    let hurt = || {
        ask(&redis, &["SAVE"]);
        redis.kill();
        redis.restart();
    };
    let story = outage(&redis.url(), hurt, Duration::ZERO, loaded);
    // What was charged between saving and dying is lost.
    Story { charged: None, ..story }
}

fn busy() -> Story {
    let redis = Setup::new(Flavour::Redis7).args(["--busy-reply-threshold", "20"]).start();
    let mut other = redis.client().expect("it runs");
    let hurt = || {
        other.send(&["EVAL", "while true do end", "0"]).expect("it listens");
    };
    outage(&redis.url(), hurt, OUTAGE, || {
        let _ = redis.command(&["SCRIPT", "KILL"]);
    })
}

fn swallow() -> Story {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let (hurt, heal) = (|| proxy.swallow_replies(true), || proxy.swallow_replies(false));
    outage(&proxy.url(), hurt, OUTAGE, heal)
}

fn drip() -> Story {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    outage(&proxy.url(), || proxy.drip(true), Duration::from_secs(3), || proxy.drip(false))
}
