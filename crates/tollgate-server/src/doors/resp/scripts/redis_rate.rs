//! The scripts of go-redis/redis_rate: GCRA in seconds with a fraction.

use smallvec::smallvec;

use super::lua_number::{format_number, to_integer};
use super::{
    PublishedScript, ScriptCall, ScriptEffect, ScriptError, ScriptPart, ScriptReply, ScriptResult,
    positive_ms, seconds_to_ms,
};
use crate::doors::resp::keys::KeyValue;

/// The epoch of the stored times, 2017 in Unix time.
const EPOCH_S: i64 = 1_483_228_800;

pub(super) const SCRIPTS: &[PublishedScript] = &[
    // 9.1.1 to 10.0.1
    PublishedScript {
        sha1: "f52a5b566060d79fd321d695df55bc918339c4aa",
        keys: 1,
        arguments: 4,
        effect: ScriptEffect::Decide,
        run: allow_n,
    },
    // 9.1.1 to 10.0.1
    PublishedScript {
        sha1: "054143318f521948424aa25df61d7f7ba835a9d7",
        keys: 1,
        arguments: 4,
        effect: ScriptEffect::Decide,
        run: allow_at_most,
    },
];

/// The state and the parameters that both scripts compute first.
struct RateState {
    /// The time of one token, in seconds.
    token: f64,
    burst_offset: f64,
    cost: f64,
    now: f64,
    /// The theoretical arrival time.
    arrival: f64,
}

fn read(call: &mut ScriptCall<'_, '_>) -> Result<RateState, ScriptError> {
    let (burst, rate, period) = (call.number(1)?, call.number(2)?, call.number(3)?);
    let cost = call.number(4)?;
    let token = period / rate;
    let micros = call.now.as_nanos() / 1_000;
    let seconds = (micros / 1_000_000) as i64 - EPOCH_S;
    let now = seconds as f64 + (micros % 1_000_000) as f64 / 1_000_000.0;
    let arrival = call.space.number(call.keys[0])?.unwrap_or(now).max(now);
    Ok(RateState { token, burst_offset: token * burst, cost, now, arrival })
}

fn allow_n(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let RateState { token, burst_offset, cost, now, arrival } = read(call)?;
    let next = arrival + token * cost;
    let ahead = now - (next - burst_offset);
    let remaining = ahead / token;
    if remaining < 0.0 {
        return Ok(reply(0.0, 0.0, -ahead, arrival - now));
    }
    store(call, next, next - now)?;
    Ok(reply(cost, remaining, -1.0, next - now))
}

fn allow_at_most(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let RateState { token, burst_offset, cost, now, arrival } = read(call)?;
    let ahead = now - (arrival - burst_offset);
    let available = ahead / token;
    if available < 1.0 {
        return Ok(reply(0.0, 0.0, token - ahead, arrival - now));
    }
    let (cost, remaining) =
        if available < cost { (available, 0.0) } else { (cost, available - cost) };
    let next = arrival + token * cost;
    store(call, next, next - now)?;
    Ok(reply(cost, remaining, -1.0, next - now))
}

fn store(call: &mut ScriptCall<'_, '_>, next: f64, reset_after: f64) -> Result<(), ScriptError> {
    if reset_after > 0.0 {
        let expiry_ms = positive_ms(seconds_to_ms(to_integer(reset_after.ceil())?)?)?;
        call.space.set(call.keys[0], KeyValue::Number(next), Some(expiry_ms));
    }
    Ok(())
}

/// Returns a reply: numbers lose their fraction, and times are texts.
fn reply(cost: f64, remaining: f64, retry_after: f64, reset_after: f64) -> ScriptReply {
    let time = |time| ScriptPart::Text(format_number(time, 14));
    ScriptReply::List(smallvec![
        ScriptPart::Integer(cost as i64),
        ScriptPart::Integer(remaining as i64),
        time(retry_after),
        time(reset_after),
    ])
}
