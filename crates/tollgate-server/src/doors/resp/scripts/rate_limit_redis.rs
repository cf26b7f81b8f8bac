//! The scripts of rate-limit-redis, the Redis store of express-rate-limit: a window from the first
//! hit.

use smallvec::smallvec;

use super::lua_number::to_integer;
use super::{
    PublishedScript, ScriptCall, ScriptEffect, ScriptPart, ScriptReply, ScriptResult, integers,
    positive_ms,
};
use crate::doors::resp::keys::KeyValue;

pub(super) const SCRIPTS: &[PublishedScript] = &[
    // 6.0
    PublishedScript {
        sha1: "895b92e1712734e1b464999be23953485475357b",
        keys: 1,
        arguments: 1,
        effect: ScriptEffect::Decide,
        run: |call| increment(call, 1, false),
    },
    // 4.2 to 5.0
    PublishedScript {
        sha1: "81dbecea94d2d10514719b20ed51faf711529d9d",
        keys: 1,
        arguments: 2,
        effect: ScriptEffect::Decide,
        run: |call| {
            let resets = call.arguments[0] == b"1";
            increment(call, 2, resets)
        },
    },
    // 3.0 to 4.1
    PublishedScript {
        sha1: "3f424a504987d231baa2e19159bb5def8ad32f87",
        keys: 1,
        arguments: 2,
        effect: ScriptEffect::Decide,
        run: increment_first,
    },
    // 4.1 to 6.0
    PublishedScript {
        sha1: "6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a",
        keys: 1,
        arguments: 0,
        effect: ScriptEffect::Read,
        run: get,
    },
];

/// Counts a hit: a key that is new, or that does not expire, starts a window.
fn increment(call: &mut ScriptCall<'_, '_>, window: usize, resets_expiry: bool) -> ScriptResult {
    let window_ms = call.number(window)?;
    let key = call.keys[0];
    let ttl_ms = call.space.ttl_ms(key);
    if ttl_ms <= 0 {
        let expiry_ms = positive_ms(to_integer(window_ms)?)?;
        call.space.set(key, KeyValue::Integer(1), Some(expiry_ms));
        return Ok(integers(&[1, window_ms as i64]));
    }
    let hits = call.space.increment(key, 1)?;
    if resets_expiry {
        call.space.expire(key, to_integer(window_ms)?);
        return Ok(integers(&[hits, window_ms as i64]));
    }
    Ok(integers(&[hits, ttl_ms]))
}

/// Counts a hit, then starts a window if there is none.
fn increment_first(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let key = call.keys[0];
    let hits = call.space.increment(key, 1)?;
    let ttl_ms = call.space.ttl_ms(key);
    if ttl_ms <= 0 || call.arguments[0] == b"1" {
        let window_ms = call.number(2)?;
        call.space.expire(key, to_integer(window_ms)?);
        return Ok(integers(&[hits, window_ms as i64]));
    }
    Ok(integers(&[hits, ttl_ms]))
}

fn get(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let hits = call.space.text(call.keys[0])?.map_or(ScriptPart::Null, ScriptPart::Text);
    let ttl_ms = call.space.ttl_ms(call.keys[0]);
    Ok(ScriptReply::List(smallvec![hits, ScriptPart::Integer(ttl_ms)]))
}
