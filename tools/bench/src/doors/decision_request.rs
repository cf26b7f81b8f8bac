//! The requests for one decision, in the protocol of each server, about any of [`KEYS`] keys.

use serde_json::json;

use super::servers::ServerKind;

/// The number of keys.
pub(crate) const KEYS: u64 = 100_000;

/// The placeholder of a key's number of twelve digits: as long as they are, and known to redis-benchmark.
pub(crate) const KEY: &str = "__rand_int__";

/// A protocol for decisions.
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

/// A request for a decision, with [`KEY`] in it.
#[derive(Clone, Debug)]
pub(crate) enum DecisionRequest {
    Resp(Vec<String>),
    Http { method: &'static str, target: &'static str, body: String },
    Grpc { path: &'static str, message: Vec<u8> },
}

/// A limit of `capacity` at once, and `count` in `seconds`.
struct ServerLimit {
    capacity: u32,
    count: u32,
    seconds: u32,
}

/// The command of throttlecrab: like CL.THROTTLE, but its reply begins with 1 if it allows.
pub(crate) const THROTTLE: &str = "THROTTLE";

/// A limit that is never reached.
const WIDE: ServerLimit = ServerLimit { capacity: 1_000_000, count: 1_000_000, seconds: 60 };

/// A limit of two a day.
const TIGHT: ServerLimit = ServerLimit { capacity: 2, count: 1, seconds: 86_400 };

/// Returns the request for `kind` through `door`; `None` without such a door or limit.
pub(crate) fn decision_request(
    kind: ServerKind,
    door: Door,
    denied: bool,
) -> Option<DecisionRequest> {
    let ServerLimit { capacity, count, seconds } = if denied { TIGHT } else { WIDE };
    let key = format!("{}:{KEY}", if denied { "denied" } else { "allowed" });
    let post = |target, body: serde_json::Value| DecisionRequest::Http {
        method: "POST",
        target,
        body: body.to_string(),
    };
    Some(match (door, kind) {
        (Door::Resp, ServerKind::Redis) if !denied => {
            DecisionRequest::Resp(vec!["INCR".to_owned(), key])
        }
        (Door::Resp, ServerKind::Tollgate | ServerKind::RedisCell | ServerKind::Throttlecrab) => {
            // The burst of redis-cell is what may come on top of one.
            let (command, burst) = match kind {
                ServerKind::Throttlecrab => (THROTTLE, capacity),
                _ => ("CL.THROTTLE", capacity - 1),
            };
            let numbers = [burst, count, seconds].map(|number| number.to_string());
            DecisionRequest::Resp([command.to_owned(), key].into_iter().chain(numbers).collect())
        }
        (Door::Http, ServerKind::Tollgate) => {
            let limit = format!("{count}/{seconds}s burst {capacity}");
            post("/v1/limit", json!({ "key": key, "limit": limit, "cost": 1 }))
        }
        (Door::Http, ServerKind::Throttlecrab) => post(
            "/throttle",
            json!({ "key": key, "max_burst": capacity, "count_per_period": count,
                    "period": seconds, "quantity": 1 }),
        ),
        (Door::Http, ServerKind::Limitador) => post(
            "/check_and_report",
            json!({ "namespace": "bench", "values": { "key": key }, "delta": 1 }),
        ),
        (Door::Http, ServerKind::Nginx) => DecisionRequest::Http {
            method: "GET",
            target: "/?key=__rand_int__",
            body: String::new(),
        },
        (Door::Grpc, ServerKind::Tollgate | ServerKind::Limitador) => DecisionRequest::Grpc {
            path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
            message: rate_limit_request(&key),
        },
        (Door::Grpc, ServerKind::Throttlecrab) => DecisionRequest::Grpc {
            path: "/throttlecrab.RateLimiter/Throttle",
            message: throttle_request(&key, [capacity, count, seconds, 1]),
        },
        _ => return None,
    })
}

/// Encodes `RateLimitRequest { domain: "bench", descriptors: [{ entries: [{ key: "key", value }] }] }`.
fn rate_limit_request(value: &str) -> Vec<u8> {
    let entry = [text(1, b"key"), text(2, value.as_bytes())].concat();
    let descriptor = text(1, &entry);
    [text(1, b"bench"), text(2, &descriptor)].concat()
}

/// Encodes `ThrottleRequest { key, max_burst, count_per_period, period, quantity }`.
fn throttle_request(key: &str, numbers: [u32; 4]) -> Vec<u8> {
    let mut message = text(1, key.as_bytes());
    for (field, number) in (2..).zip(numbers) {
        message.push(field << 3);
        varint(&mut message, number);
    }
    message
}

/// Encodes a field of text, bytes, or a message.
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
