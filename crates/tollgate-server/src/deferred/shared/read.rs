//! What the store says of deferred requests.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::rules::DeferLine;
use tollgate_redis::DeskReply;

use super::super::item::{Answer, Entry, Head, ItemId, State, Summary, Waiting};
use super::super::queue::{QueueError, Result};

/// What stands between the parts of a line: no name has it.
const BETWEEN: char = '\u{1f}';

pub(super) fn strange() -> QueueError {
    QueueError::Trouble("the shared store gave an answer that is none".into())
}

pub(super) fn line_text(line: &DeferLine) -> String {
    format!("{}{BETWEEN}{}{BETWEEN}{}", line.domain, line.rule, line.key)
}

/// What the lines of a rule have in common.
pub(super) fn rule_part(rule: Option<&str>) -> String {
    rule.map_or_else(String::new, |rule| format!("{BETWEEN}{rule}{BETWEEN}"))
}

fn line(text: &str) -> Result<DeferLine> {
    let mut parts = text.splitn(3, BETWEEN).map(str::to_owned);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(domain), Some(rule), Some(key)) => Ok(DeferLine { domain, rule, key }),
        _ => Err(strange()),
    }
}

pub(super) fn head(text: &[u8]) -> Result<Head> {
    serde_json::from_slice(text).map_err(|_| strange())
}

fn text(reply: DeskReply) -> Result<String> {
    match reply {
        DeskReply::Bytes(bytes) => String::from_utf8(bytes).map_err(|_| strange()),
        DeskReply::Number(number) => Ok(number.to_string()),
        _ => Err(strange()),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| strange())
}

/// So many texts.
pub(super) fn texts<const N: usize>(reply: DeskReply) -> Result<[String; N]> {
    let DeskReply::List(parts) = reply else { return Err(strange()) };
    let texts: Vec<String> = parts.into_iter().map(text).collect::<Result<_>>()?;
    texts.try_into().map_err(|_| strange())
}

/// The turn of an entry, which is called by a time and a number.
pub(super) fn seq(entry: &str) -> Result<u64> {
    let (ms, number_then) = entry.split_once('-').ok_or_else(strange)?;
    let (ms, then): (u64, u64) = (number(ms)?, number(number_then)?);
    Ok(ms << 20 | then.min((1 << 20) - 1))
}

pub(super) fn waiting(reply: DeskReply) -> Result<Waiting> {
    let [entry, id, of, added, due, failures] = texts(reply)?;
    Ok(Waiting {
        seq: seq(&entry)?,
        id: ItemId::parse(&id).ok_or_else(strange)?,
        line: Arc::new(line(&of)?),
        added_ms: number(&added)?,
        due_ms: number(&due)?,
        failures: number(&failures)?,
    })
}

/// How many wait in each line.
pub(super) fn lines(reply: DeskReply) -> Result<HashMap<DeferLine, u64>> {
    let DeskReply::List(parts) = reply else { return Err(strange()) };
    let mut parts = parts.into_iter();
    let mut lines = HashMap::new();
    while let (Some(name), Some(count)) = (parts.next(), parts.next()) {
        lines.insert(line(&text(name)?)?, number(&text(count)?)?);
    }
    Ok(lines)
}

pub(super) fn listed(reply: DeskReply) -> Result<Entry> {
    match reply {
        DeskReply::List(parts) => entry(parts),
        _ => Err(strange()),
    }
}

pub(super) fn entry(mut parts: Vec<DeskReply>) -> Result<Entry> {
    let Some(DeskReply::Bytes(body)) = parts.pop() else { return Err(strange()) };
    let [id, of, kept, bytes, state, attempts, added, changed, due, why, status, kind] =
        texts(DeskReply::List(parts))?;
    let head = head(kept.as_bytes())?;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let status = some(status).map(|status| number(&status)).transpose()?;
    let (kind, body) = (some(kind), Some(body).filter(|body| !body.is_empty()).map(Into::into));
    Ok(Entry {
        id: ItemId::parse(&id).ok_or_else(strange)?,
        line: line(&of)?,
        method: head.method,
        target: head.target,
        bytes: number(&bytes)?,
        state: State::parse(&state).ok_or_else(strange)?,
        attempts: number(&attempts)?,
        added_ms: number(&added)?,
        changed_ms: number(&changed)?,
        due_ms: number(&due)?,
        why: some(why),
        answer: status.map(|status| Answer { status, kind, body }),
    })
}

pub(super) fn summary(reply: DeskReply) -> Result<Summary> {
    let [queued, sending, done, failed, cancelled, oldest] = texts(reply)?;
    let counts = [queued, sending, done, failed, cancelled].map(|count| number::<u64>(&count));
    let mut summary = Summary::default();
    for (place, count) in summary.counts.iter_mut().zip(counts) {
        *place = count?;
    }
    summary.oldest_ms = match oldest.as_str() {
        "" => None,
        oldest => Some(number(oldest)?),
    };
    Ok(summary)
}
