//! Counters in Redis as this version writes them: later versions must read them.
//!
//! The commands of `spec/formats/redis-1.txt` restore what a store had written; the store must then
//! answer as the lines `expect` say. The server's clock is set to the time of the file. `UPDATE=1`
//! writes the file again, which only a new format justifies.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::{
    Action, Check, Consistency, CounterId, Limit, Span, Store, StoreCall, StoreError, Verdict,
};
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::{Flavour, Redis, Reply, Setup};

/// The time of the file, in seconds since 1970.
const SAVED_AT: i64 = 1_793_448_000;
const MODES: [(&str, Consistency); 3] = [
    ("strict", Consistency::Strict),
    ("leased", Consistency::Leased),
    ("synced", Consistency::Synced),
];
/// Limits of every algorithm, so slow that the seconds of a test change nothing.
const LIMITS: [&str; 12] = [
    "1000/d",
    "997/d burst 600",
    "1000/d leaky burst 1000",
    "1000/d interval",
    "1000/d pay_later",
    "1000/d fixed first_hit",
    "1000/month calendar",
    "1000/d sliding",
    "1000/d sliding slots 24",
    "1000/d log",
    "1000/d warmup 1h",
    "1000 concurrent lease 1d",
];

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../spec/formats/redis-1.txt")
}

/// Starts a server whose clock shows a time, in seconds since 1970, and any fraction of a second.
fn start(at: i64) -> Redis {
    let redis = Setup::new(Flavour::Valkey).settable_clock().start();
    let Reply::List(now) = redis.command(&["TIME"]).unwrap() else { panic!("no time") };
    redis.step_clock(at - now[0].text().parse::<i64>().unwrap());
    redis
}

async fn connect(redis: &Redis) -> RedisStore {
    let options: Options = redis.url().parse().unwrap();
    RedisStore::connect(options.timeout(Duration::from_secs(20)).unwrap()).await.unwrap()
}

/// Returns the check of a limit by its text, which names its counter too.
fn check<'c>(limit: &'c Limit, mode: (&str, Consistency), cost: u64) -> Check<'c> {
    let counter = CounterId::from_parts(&[mode.0, &limit.to_string()]);
    Check { consistency: mode.1, lease: 7, ..Check::new(counter, "acme|ann", limit, cost) }
}

async fn run(store: &RedisStore, action: Action, check: Check<'_>) -> Result<Verdict, StoreError> {
    Ok(store.run(StoreCall { action, checks: &[check] }).await?[0])
}

#[tokio::test]
async fn counters_of_the_first_format_are_read() {
    if std::env::var_os("UPDATE").is_some() {
        write_file().await;
    }
    let text = fs::read_to_string(file()).unwrap();
    // The counters were written within the second of the file, so a second later is later.
    let redis = start(SAVED_AT + 1);
    for line in text.lines().filter(|line| line.starts_with("command ")) {
        let words: Vec<Vec<u8>> = line.split(' ').skip(1).map(bytes).collect();
        redis.client().unwrap().command(&words).unwrap();
    }
    let store = connect(&redis).await;
    let mut expected = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("expect ")) {
        let (mode, rest) = line.split_once(' ').unwrap();
        let (used, limit) = rest.split_once(" used of ").unwrap();
        let mode = *MODES.iter().find(|(name, _)| *name == mode).unwrap();
        let limit: Limit = limit.parse().unwrap();
        let peek = run(&store, Action::Peek, check(&limit, mode, 0)).await.unwrap();
        assert_eq!((peek.limit - peek.remaining).to_string(), used, "{line}: {peek:?}");
        expected += 1;
    }
    assert_eq!(expected, MODES.len() * LIMITS.len());
}

/// Charges every limit, and writes what the server then has.
async fn write_file() {
    let redis = start(SAVED_AT);
    let store = connect(&redis).await;
    let mut lines = vec![format!("# What tollgate-redis wrote at {SAVED_AT} seconds since 1970.")];
    for mode in MODES {
        for text in LIMITS {
            let limit: Limit = text.parse().unwrap();
            let take = Action::Take { max_wait: Span::ZERO };
            assert!(run(&store, take, check(&limit, mode, 5)).await.unwrap().allowed, "{text}");
        }
    }
    // Dropping the store gives leases back and pushes what is not synced yet.
    drop(store);
    tollgate_rig::until("the node has left", || {
        redis.command(&["ZCARD", "tollgate:nodes"]).unwrap().int() == Some(0)
    });
    let store = connect(&redis).await;
    for mode in MODES {
        for text in LIMITS {
            let limit: Limit = text.parse().unwrap();
            let peek = run(&store, Action::Peek, check(&limit, mode, 0)).await.unwrap();
            let used = peek.limit - peek.remaining;
            lines.push(format!("expect {} {used} used of {text}", mode.0));
        }
    }
    let Reply::List(mut keys) = redis.command(&["KEYS", "*"]).unwrap() else { panic!("no keys") };
    keys.sort_by_key(Reply::text);
    for key in keys.iter().map(Reply::text).filter(|key| !key.ends_with(":nodes")) {
        let kind = redis.command(&["TYPE", &key]).unwrap().text();
        assert_eq!(kind, "hash", "{key}");
        let Reply::List(fields) = redis.command(&["HGETALL", &key]).unwrap() else { panic!() };
        let mut words = vec![hexadecimal(b"HSET"), hexadecimal(key.as_bytes())];
        words.extend(fields.iter().map(|field| hexadecimal(&raw(field))));
        lines.push(format!("# {key}"));
        lines.push(format!("command {}", words.join(" ")));
    }
    fs::create_dir_all(file().parent().unwrap()).unwrap();
    fs::write(file(), lines.join("\n") + "\n").unwrap();
}

/// Returns the bytes of a reply.
fn raw(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Bytes(bytes) => bytes.clone(),
        other => panic!("no bytes: {other:?}"),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16);
    digits.map(|digits| byte(digits).unwrap()).collect()
}
