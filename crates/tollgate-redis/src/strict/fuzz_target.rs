//! The checks of the replies of our Lua, part of the fuzz target of replies.

use redis::Value;
use tollgate::{Limit, Time};

use super::lua_reply::LuaReply;
use super::state_text::{StateFormat, decode, decode_written, encode, encode_after, is_stepped};

/// Limits of every algorithm that has counters in Redis.
const LIMITS: [&str; 9] = [
    "5/h",
    "997/h burst 6",
    "5/h fixed",
    "5/h sliding",
    "5/h sliding slots 6",
    "5/h log",
    "5/h warmup 1min",
    "5 concurrent",
    "4611686018427387904/d",
];

/// Reads a value as the reply of our Lua, and its texts as counters of every algorithm.
pub(crate) fn check_lua_reply(value: &Value) {
    let Ok(reply) = LuaReply::read(value.clone()) else { return };
    for text in reply.texts.iter().flatten() {
        check_counter(text, reply.now);
    }
}

/// Reads any bytes as counters of every algorithm. A counter that is read is written and read again
/// without a change.
pub(crate) fn check_counter(text: &[u8], now: Time) {
    for limit in LIMITS {
        let limit: Limit = limit.parse().expect("the limit is valid");
        for limit_varies in [false, true] {
            check_format(text, StateFormat { limit: &limit, limit_varies }, now);
        }
    }
}

fn check_format(text: &[u8], format: StateFormat<'_>, now: Time) {
    let Some((state, _)) = decode_written(text, format) else {
        return assert!(decode(text, format, now).is_none());
    };
    let written = encode(&state, format, now).expect("the counter is stored in Redis");
    let (again, _) = decode_written(&written, format).expect("a written counter is read");
    assert_eq!(encode(&again, format, now), Some(written), "{format:?}: {state:?}");
    let state = decode(text, format, now).expect("it was read before");
    let kept = encode_after(Some(text), &state, format, now).expect("it is stored in Redis");
    // A counter that nothing has changed keeps its text.
    assert!(is_stepped(text, format, now) || kept == text, "{format:?}: {state:?}");
}
