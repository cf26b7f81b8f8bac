//! The script of rate-limiter-flexible: a window from the first point, in whole seconds.

use super::{
    PublishedScript, ScriptCall, ScriptEffect, ScriptResult, integers, positive_ms, seconds_to_ms,
};
use crate::doors::resp::keys::KeyValue;

pub(super) const SCRIPTS: &[PublishedScript] = &[
    // 2.0 to 11.4
    PublishedScript {
        sha1: "a1de965f42e177aa339706bd580f049065eca79a",
        keys: 1,
        arguments: 2,
        effect: ScriptEffect::Decide,
        run: consume,
    },
];

fn consume(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let (key, seconds) = (call.keys[0], call.integer(2)?);
    let duration_ms = positive_ms(seconds_to_ms(seconds)?)?;
    if !call.space.exists(key) {
        call.space.set(key, KeyValue::Integer(0), Some(duration_ms));
    }
    let points = call.integer(1)?;
    let consumed = call.space.increment(key, points)?;
    let mut ttl_ms = call.space.ttl_ms(key);
    if ttl_ms == -1 {
        ttl_ms = seconds_to_ms(seconds)?;
        call.space.expire(key, ttl_ms);
    }
    Ok(integers(&[consumed, ttl_ms]))
}
