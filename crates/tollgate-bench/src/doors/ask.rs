//! What a server is asked: one decision, in the words of its protocol, about any of [`KEYS`] keys.

use serde_json::json;

use super::lineup::Kind;

/// How many keys there are.
pub(crate) const KEYS: u64 = 100_000;

/// Stands for a key's number of twelve digits: as long as they are, and what redis-benchmark
/// replaces by itself.
pub(crate) const KEY: &str = "__rand_int__";

/// A protocol that decisions are asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Resp,
    Http,
    Grpc,
}

impl Door {
    pub(crate) const ALL: [Door; 3] = [Door::Resp, Door::Http, Door::Grpc];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Door::Resp => "resp",
            Door::Http => "http",
            Door::Grpc => "grpc",
        }
    }
}

/// One question, with [`KEY`] in it.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Resp(Vec<String>),
    Http { method: &'static str, target: &'static str, body: String },
    Grpc { path: &'static str, message: Vec<u8> },
}

/// So many at once, and so many more in so many seconds.
struct Limit {
    capacity: u32,
    count: u32,
    seconds: u32,
}

/// throttlecrab's command: as CL.THROTTLE, but it begins its answer with 1 when it allows.
pub(crate) const THROTTLE: &str = "THROTTLE";

/// Nobody reaches it.
const WIDE: Limit = Limit { capacity: 1_000_000, count: 1_000_000, seconds: 60 };

/// Two, and then nothing for a day.
const TIGHT: Limit = Limit { capacity: 2, count: 1, seconds: 86_400 };

/// What `kind` is asked through `door`; nothing if it has no such door, or refuses nobody.
pub(crate) fn ask(kind: Kind, door: Door, denied: bool) -> Option<Ask> {
    let Limit { capacity, count, seconds } = if denied { TIGHT } else { WIDE };
    let key = format!("{}:{KEY}", if denied { "denied" } else { "allowed" });
    let post = |target, body: serde_json::Value| Ask::Http {
        method: "POST",
        target,
        body: body.to_string(),
    };
    Some(match (door, kind) {
        (Door::Resp, Kind::Redis) if !denied => Ask::Resp(vec!["INCR".to_owned(), key]),
        (Door::Resp, Kind::Tollgate | Kind::RedisCell | Kind::Throttlecrab) => {
            // redis-cell means by burst what may come on top of one.
            let (command, burst) = match kind {
                Kind::Throttlecrab => (THROTTLE, capacity),
                _ => ("CL.THROTTLE", capacity - 1),
            };
            let numbers = [burst, count, seconds].map(|number| number.to_string());
            Ask::Resp([command.to_owned(), key].into_iter().chain(numbers).collect())
        }
        (Door::Http, Kind::Tollgate) => {
            let limit = format!("{count}/{seconds}s burst {capacity}");
            post("/v1/limit", json!({ "key": key, "limit": limit, "cost": 1 }))
        }
        (Door::Http, Kind::Throttlecrab) => post(
            "/throttle",
            json!({ "key": key, "max_burst": capacity, "count_per_period": count,
                    "period": seconds, "quantity": 1 }),
        ),
        (Door::Http, Kind::Limitador) => post(
            "/check_and_report",
            json!({ "namespace": "bench", "values": { "key": key }, "delta": 1 }),
        ),
        (Door::Http, Kind::Nginx) => {
            Ask::Http { method: "GET", target: "/?key=__rand_int__", body: String::new() }
        }
        (Door::Grpc, Kind::Tollgate | Kind::Limitador) => Ask::Grpc {
            path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
            message: rate_limit_request(&key),
        },
        (Door::Grpc, Kind::Throttlecrab) => Ask::Grpc {
            path: "/throttlecrab.RateLimiter/Throttle",
            message: throttle_request(&key, [capacity, count, seconds, 1]),
        },
        _ => return None,
    })
}

/// `RateLimitRequest { domain: "bench", descriptors: [{ entries: [{ key: "key", value }] }] }`.
fn rate_limit_request(value: &str) -> Vec<u8> {
    let entry = [text(1, b"key"), text(2, value.as_bytes())].concat();
    let descriptor = text(1, &entry);
    [text(1, b"bench"), text(2, &descriptor)].concat()
}

/// `ThrottleRequest { key, max_burst, count_per_period, period, quantity }`.
fn throttle_request(key: &str, numbers: [u32; 4]) -> Vec<u8> {
    let mut message = text(1, key.as_bytes());
    for (field, number) in (2..).zip(numbers) {
        message.push(field << 3);
        varint(&mut message, number);
    }
    message
}

/// A field of text, bytes, or a message.
fn text(field: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![field << 3 | 2];
    varint(&mut bytes, value.len() as u32);
    bytes.extend_from_slice(value);
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
