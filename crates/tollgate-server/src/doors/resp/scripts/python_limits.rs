//! The scripts of `limits` for Python: fixed window, moving window and sliding window counter.

use std::collections::VecDeque;

use smallvec::{SmallVec, smallvec};

use super::lua_number::{format_number, to_integer};
use super::{
    PublishedScript, ScriptCall, ScriptEffect, ScriptError, ScriptPart, ScriptReply, ScriptResult,
    positive_ms, seconds_to_ms,
};
use crate::doors::resp::keys::{KeyError, KeyValue};

/// The maximum number of entries of a moving window: each takes 8 bytes.
const MAX_ENTRIES: f64 = 1_000_000.0;
const TOO_MANY_ENTRIES: &str = "a moving window has at most 1000000 entries";

pub(super) const SCRIPTS: &[PublishedScript] = &[
    // 2.3 to 5.8
    script("628bd136a573a06b346879695681af12ccef300f", 1, 2, ScriptEffect::Decide, increment),
    // 2.3 to 5.8
    script("f2994557f1daca13bfef97c2a31ca4b174e031ca", 1, 0, ScriptEffect::Reset, clear_keys),
    // 5.0 to 5.8
    script("741eab638ba93ed71020bb821c45c022d0fa02c4", 1, 4, ScriptEffect::Decide, acquire_moving),
    // 3.6 to 4.7
    script("19c9778cd6391e2ee9f90aa518bf56256d15b4ae", 1, 4, ScriptEffect::Decide, acquire_moving),
    // 3.3
    script("bec85d5af0739203306474d2cac591c3d6f907d2", 1, 4, ScriptEffect::Decide, acquire_some),
    // 2.6 to 3.0
    script("d19f37c18768a509dbf1310a257bfc35be65609f", 1, 4, ScriptEffect::Decide, acquire_any),
    // 5.0 to 5.8
    script("ad795214f59fe26d6fdec07973836dd16586f5ec", 1, 2, ScriptEffect::Read, moving_by_search),
    // 4.0 to 4.7
    script("f2ef2962263bbe72f66f5bbd0da234e74d880068", 1, 2, ScriptEffect::Read, moving_as_text),
    // 3.10 to 3.14
    script("bf95c654b6be0a54713252ef2362a25546faf877", 1, 2, ScriptEffect::Read, moving_oldest),
    // 2.3 to 3.6
    script("3136f0028c572d2959b5cdc5ec15b287fab6a9ff", 1, 2, ScriptEffect::Read, moving_latest),
    // 4.2 to 5.8
    script("e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7", 2, 3, ScriptEffect::Decide, acquire_sliding),
    // 4.2 to 5.8
    script("e7a0a27d4101baabb124af209bb0245197a359a1", 2, 1, ScriptEffect::Read, sliding),
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

/// Adds to a fixed window, which begins with the first hit.
fn increment(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let (key, amount) = (call.keys[0], to_integer(call.number(2)?)?);
    let current = call.space.increment(key, amount)?;
    if current == amount {
        let expiry_ms = seconds_to_ms(call.integer(1)?)?;
        call.space.expire(key, expiry_ms);
    }
    Ok(ScriptReply::Integer(current))
}

fn clear_keys(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    Ok(ScriptReply::Integer(call.space.remove_matching(call.keys[0]) as i64))
}

/// Returns the entries of a moving window, the latest first.
fn entries<'k>(call: &'k mut ScriptCall<'_, '_>) -> Result<Option<&'k VecDeque<f64>>, ScriptError> {
    match call.space.value(call.keys[0]) {
        None => Ok(None),
        Some(KeyValue::Times(times)) => Ok(Some(times)),
        Some(_) => Err(KeyError::WrongType.into()),
    }
}

/// Returns the entry at an index as `LINDEX` does: a negative one counts from the end.
fn entry_at(times: &VecDeque<f64>, index: i64) -> Option<f64> {
    let index = if index < 0 { index.checked_add_unsigned(times.len() as u64)? } else { index };
    times.get(usize::try_from(index).ok()?).copied()
}

fn acquire_moving(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    match call.number(4)? > call.number(2)? {
        true => Ok(ScriptReply::Null),
        false => acquire(call),
    }
}

/// Acquires at least one entry: with none, the script calls `LPUSH` without a value.
fn acquire_some(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    match call.number(4)? < 1.0 {
        true => Err(ScriptError::Bound("wrong number of arguments for 'lpush' command")),
        false => acquire_moving(call),
    }
}

/// Acquires entries even if there are more than the limit has.
fn acquire_any(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    match call.number(4)? < 1.0 {
        true => Err(ScriptError::Bound("wrong number of arguments for 'lpush' command")),
        false => acquire(call),
    }
}

fn acquire(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let [timestamp, limit, expiry, amount] = numbers(call)?;
    if limit > MAX_ENTRIES || amount > MAX_ENTRIES {
        return Err(ScriptError::Bound(TOO_MANY_ENTRIES));
    }
    let index = to_integer(limit - amount)?;
    let oldest = entries(call)?.and_then(|times| entry_at(times, index));
    if oldest.is_some_and(|oldest| oldest >= timestamp - expiry) {
        return Ok(ScriptReply::Null);
    }
    let (key, kept) = (call.keys[0], to_integer(limit - 1.0)?);
    let expiry_ms = seconds_to_ms(to_integer(expiry)?)?;
    let mut times = match call.space.take(key) {
        Some(KeyValue::Times(times)) => times,
        _ => VecDeque::new(),
    };
    for _ in 0..amount as i64 {
        times.push_front(timestamp);
    }
    // `LTRIM key 0 -1` keeps everything, and no other negative end occurs with a limit of 0 or more.
    match usize::try_from(kept) {
        Ok(kept) => times.truncate(kept + 1),
        Err(_) if kept == -1 => {}
        Err(_) => return Err(ScriptError::Bound("a limit is 0 or more")),
    }
    if let Ok(expiry_ms @ 1..) = u64::try_from(expiry_ms)
        && !times.is_empty()
    {
        call.space.set(key, KeyValue::Times(times), Some(expiry_ms));
    }
    Ok(ScriptReply::Integer(1))
}

fn numbers<const N: usize>(call: &ScriptCall<'_, '_>) -> Result<[f64; N], ScriptError> {
    let mut numbers = [0.0; N];
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = call.number(index + 1)?;
    }
    Ok(numbers)
}

/// Returns the start of the window and the number of its entries, found by a binary search.
fn moving_by_search(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let [start, length] = numbers(call)?;
    let Some(times) = entries(call)? else { return Ok(ScriptReply::Null) };
    let (mut low, mut high) = (0_i64, to_integer(length - 1.0)?);
    let mut found = None;
    while low <= high {
        let middle = (low + high).div_euclid(2);
        match entry_at(times, middle) {
            Some(time) if time >= start => {
                found = Some((time, middle + 1));
                low = middle + 1;
            }
            _ => high = middle - 1,
        }
    }
    Ok(found.map_or(ScriptReply::Null, |(oldest, count)| text_and_count(oldest, count)))
}

fn text_and_count(oldest: f64, count: i64) -> ScriptReply {
    let oldest = ScriptPart::Text(format_number(oldest, 14));
    ScriptReply::List(smallvec![oldest, ScriptPart::Integer(count)])
}

/// The entries of a window, counted from the latest up to the first that is too old.
struct CountedEntries {
    latest: f64,
    oldest: f64,
    count: i64,
}

fn count_entries(call: &mut ScriptCall<'_, '_>) -> Result<Option<CountedEntries>, ScriptError> {
    let [start, last] = numbers(call)?;
    let last = to_integer(last)?;
    let Some(times) = entries(call)? else { return Ok(None) };
    // `LRANGE 0 last` includes the last index; a negative one counts from the end.
    let length = times.len() as i64;
    let end = if last < 0 { last.saturating_add(length) } else { last.min(length - 1) };
    let range = times.iter().take(usize::try_from(end + 1).unwrap_or(0));
    let mut counted: Option<CountedEntries> = None;
    for time in range.take_while(|time| **time >= start) {
        let entries =
            counted.get_or_insert(CountedEntries { latest: *time, oldest: *time, count: 0 });
        entries.oldest = entries.oldest.min(*time);
        entries.count += 1;
    }
    Ok(counted)
}

fn moving_as_text(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let counted = count_entries(call)?;
    Ok(counted.map_or(ScriptReply::Null, |it| text_and_count(it.oldest, it.count)))
}

fn moving_oldest(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let counted = count_entries(call)?;
    Ok(whole_and_count(counted.map(|it| (it.oldest, it.count))))
}

fn moving_latest(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let counted = count_entries(call)?;
    Ok(whole_and_count(counted.map(|it| (it.latest, it.count))))
}

/// Returns a time without its fraction and a count; a list that begins with nil is empty.
fn whole_and_count(counted: Option<(f64, i64)>) -> ScriptReply {
    let parts = counted.map(|(time, count)| [time as i64, count].map(ScriptPart::Integer));
    ScriptReply::List(parts.map_or_else(SmallVec::new, |parts| parts.into_iter().collect()))
}

/// Shifts the current window to the previous one when its first half has passed: a window is kept
/// for twice its length.
fn shift(call: &mut ScriptCall<'_, '_>, expiry_ms: f64) -> Result<(), ScriptError> {
    let (previous, current) = (call.keys[0], call.keys[1]);
    let ttl_ms = call.space.ttl_ms(current);
    if ttl_ms > 0 && (ttl_ms as f64) < expiry_ms {
        call.space.rename(current, previous)?;
        let next_ms = positive_ms(to_integer(ttl_ms as f64 + expiry_ms)?)?;
        call.space.set(current, KeyValue::Integer(0), Some(next_ms));
    }
    Ok(())
}

fn sliding(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let expiry_ms = call.number(1)? * 1_000.0;
    // The script reads both counters before it shifts, so wrong types are found first.
    call.space.text(call.keys[0])?;
    call.space.text(call.keys[1])?;
    shift(call, expiry_ms)?;
    let mut parts = SmallVec::new();
    for key in &call.keys[..2] {
        parts.push(call.space.text(key)?.map_or(ScriptPart::Null, ScriptPart::Text));
        parts.push(ScriptPart::Integer(call.space.ttl_ms(key)));
    }
    Ok(ScriptReply::List(parts))
}

fn acquire_sliding(call: &mut ScriptCall<'_, '_>) -> ScriptResult {
    let [limit, expiry_s, amount] = numbers(call)?;
    let expiry_ms = expiry_s * 1_000.0;
    if amount > limit {
        return Ok(ScriptReply::Null);
    }
    shift(call, expiry_ms)?;
    let (previous, current) = (call.keys[0], call.keys[1]);
    let previous_count = call.space.number(previous)?.unwrap_or(0.0);
    let previous_ttl_ms = call.space.ttl_ms(previous).max(0) as f64;
    let current_count = call.space.number(current)?.unwrap_or(0.0);
    let weighted = (previous_count * previous_ttl_ms / expiry_ms).floor() + current_count;
    if weighted + amount > limit {
        return Ok(ScriptReply::Null);
    }
    let amount = to_integer(amount)?;
    if call.space.exists(current) {
        call.space.increment(current, amount)?;
    } else {
        let expiry_ms = positive_ms(to_integer(expiry_ms * 2.0)?)?;
        call.space.set(current, KeyValue::Integer(amount), Some(expiry_ms));
    }
    Ok(ScriptReply::Integer(1))
}
