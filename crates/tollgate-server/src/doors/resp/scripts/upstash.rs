//! The scripts of @upstash/ratelimit for one region: fixed window, sliding window and token bucket.

use super::lua_number::{modulo, to_integer};
use super::{
    PublishedScript, ScriptCall, ScriptEffect, ScriptError, ScriptReply, ScriptResult, integers,
};
use crate::doors::resp::keys::{KeyError, KeyValue};

pub(super) const SCRIPTS: &[PublishedScript] = &[
    // 2.1 and 2.2, then 2.0.8, of each script
    script("b2efc02798c8e9b471a10f9b1d5745db89923ff3", 1, 3, ScriptEffect::Decide, fixed),
    script("472e55443b62f60d0991028456c57815a387066d", 2, 3, ScriptEffect::Decide, fixed),
    script("823cb2a5a902d69681244f5e28e5ebb8f2a89edd", 1, 1, ScriptEffect::Read, fixed_left),
    script("40515c9dd0a08f8584f5f9b593935f6a87c1c1c3", 2, 1, ScriptEffect::Read, fixed_left),
    script("74740bb3d7792848093cdef586b6b6037c455fd6", 2, 4, ScriptEffect::Decide, sliding),
    script("977fb636fb5ceb7e98a96d1b3a1272ba018efdae", 3, 4, ScriptEffect::Decide, sliding),
    script("7ca36169e0fc9caedd81b4eef8e99854c157f9b5", 2, 3, ScriptEffect::Read, sliding_left),
    script("ee3a3265fad822f83acad23f8a1e2f5c0b156b03", 3, 3, ScriptEffect::Read, sliding_left),
    script("40daf4a441df736f5c99f8b77bbe176c909e5de4", 1, 1, ScriptEffect::Read, bucket_left),
    script("deb03663e8af5a968deee895dd081be553d2611b", 2, 1, ScriptEffect::Read, bucket_left),
    script("1861a700bafe96c833a483af6b1c28a8897cfdb0", 1, 2, ScriptEffect::Decide, cached),
    script("c26b12703dd137939b9a69a3a9b18e906a2d940f", 1, 2, ScriptEffect::Decide, cached),
    script("eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36", 1, 0, ScriptEffect::Read, cached_left),
    script("8e8f222ccae68b595ee6e3f3bf2199629a62b91a", 1, 0, ScriptEffect::Read, cached_left),
    // 2.2, then 2.1, then 2.0.8: only the first refuses a request that needs more than is left
    script("d60be5bd3d83482ae229309f1f7425424f891204", 1, 5, ScriptEffect::Decide, |call| {
        bucket(call, |tokens, cost| tokens < cost)
    }),
    script("a9873a8026b509e99a49a0e5a2049756c693c384", 1, 5, ScriptEffect::Decide, |call| {
        bucket(call, |tokens, _| tokens == 0.0)
    }),
    script("b35c5bc0b7fdae7dd0573d4529911cabaf9d1d89", 2, 5, ScriptEffect::Decide, |call| {
        bucket(call, |tokens, _| tokens == 0.0)
    }),
    // 2.0.8 to 2.2
    script("54bd274ddc59fb3be0f42deee2f64322a10e2b50", 1, 0, ScriptEffect::Reset, reset),
];

const fn script(
    sha1: &'static str,
    keys: usize,
    arguments: usize,
    effect: ScriptEffect,
    run: fn(&mut ScriptCall<'_, '_>) -> ScriptResult,
) -> PublishedScript {
    PublishedScript { sha1, keys, arguments, effect, run }
}

/// Returns the limit: that of the key at `index`, if there is one, or the first argument.
fn effective_limit(call: &mut ScriptCall<'_, '_>, index: usize) -> Result<f64, ScriptError> {
    let limit = call.number(1)?;
    match call.keys.get(index) {
        Some(key) if !key.is_empty() => Ok(call.space.number(key)?.unwrap_or(limit)),
        _ => Ok(limit),
    }
}

fn fixed(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let limit = effective_limit(call, 1)?;
    let by = call.integer(3)?;
    let used = call.space.increment(call.keys[0], by)?;
    if used == by {
        let window_ms = call.integer(2)?;
        call.space.expire(call.keys[0], window_ms);
    }
    Ok(integers(&[used, limit as i64]))
}

fn fixed_left(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let limit = effective_limit(call, 1)?;
    let used = call.space.number(call.keys[0])?.unwrap_or(0.0);
    Ok(integers(&[(limit - used) as i64, limit as i64]))
}

/// Returns the requests of the current window, and those of the previous one by their weight.
fn window_counts(call: &mut ScriptCall<'_, '_>) -> Result<(f64, f64), ScriptError> {
    let current = call.space.number(call.keys[0])?.unwrap_or(0.0);
    let previous = call.space.number(call.keys[1])?.unwrap_or(0.0);
    let (now, window) = (call.number(2)?, call.number(3)?);
    let elapsed = modulo(now, window) / window;
    Ok((current, ((1.0 - elapsed) * previous).floor()))
}

fn sliding(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let (by, limit) = (call.number(4)?, effective_limit(call, 2)?);
    let (current, previous) = window_counts(call)?;
    if by > 0.0 && previous + current >= limit {
        return Ok(integers(&[-1, limit as i64]));
    }
    let by = to_integer(by)?;
    let used = call.space.increment(call.keys[0], by)?;
    if used == by {
        let expiry_ms = to_integer(call.number(3)? * 2.0 + 1_000.0)?;
        call.space.expire(call.keys[0], expiry_ms);
    }
    Ok(integers(&[(limit - (used as f64 + previous)) as i64, limit as i64]))
}

fn sliding_left(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let limit = effective_limit(call, 2)?;
    let (current, previous) = window_counts(call)?;
    Ok(integers(&[(limit - (previous + current)) as i64, limit as i64]))
}

/// Returns the time of the last refill and the tokens of a bucket.
fn bucket_state(call: &mut ScriptCall<'_, '_>) -> Result<Option<(f64, f64)>, ScriptError> {
    match call.space.value(call.keys[0]) {
        None => Ok(None),
        Some(KeyValue::Bucket { refilled_at, tokens }) => Ok(Some((*refilled_at, *tokens))),
        Some(_) => Err(KeyError::WrongType.into()),
    }
}

/// Takes tokens, unless `is_refused` says so of the tokens that are left and the cost.
fn bucket(call: &mut ScriptCall<'_, '_>, is_refused: fn(f64, f64) -> bool) -> ScriptResult {
    let (interval, refill, now) = (call.number(2)?, call.number(3)?, call.number(4)?);
    let (cost, limit) = (call.number(5)?, effective_limit(call, 1)?);
    let (mut refilled_at, mut tokens) = bucket_state(call)?.unwrap_or((now, limit));
    if now >= refilled_at + interval {
        let refills = ((now - refilled_at) / interval).floor();
        tokens = limit.min(tokens + refills * refill);
        refilled_at += refills * interval;
    }
    let next = (refilled_at + interval) as i64;
    if cost > 0.0 && is_refused(tokens, cost) {
        return Ok(integers(&[-1, next, limit as i64]));
    }
    let tokens = tokens - cost;
    let expiry_ms = ((limit - tokens) / refill).ceil() * interval;
    call.space.replace(call.keys[0], KeyValue::Bucket { refilled_at, tokens });
    if expiry_ms > 0.0 {
        call.space.expire(call.keys[0], to_integer(expiry_ms)?);
    }
    Ok(integers(&[tokens as i64, next, limit as i64]))
}

fn bucket_left(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let limit = effective_limit(call, 1)?;
    let (refilled_at, tokens) = bucket_state(call)?.unwrap_or((-1.0, limit));
    Ok(integers(&[tokens as i64, refilled_at as i64, limit as i64]))
}

/// Adds to a window. The script compares a number with a text, so it never sets an expiry.
fn cached(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let by = call.integer(2)?;
    Ok(ScriptReply::Integer(call.space.increment(call.keys[0], by)?))
}

fn cached_left(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let used = call.space.text(call.keys[0])?;
    Ok(used.map_or(ScriptReply::Integer(0), ScriptReply::Text))
}

fn reset(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    call.space.remove_matching(call.keys[0]);
    Ok(ScriptReply::Null)
}
