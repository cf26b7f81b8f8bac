//! Decodes the replies of the store about deferred requests.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_redis::ServerReply;

use super::super::item::{
    ItemDetails, ItemId, ItemState, QueueSummary, QueuedItem, StoredHead, StoredResponse,
};
use super::super::queue::{QueueError, Result};
use super::super::queue_key::DeferredQueueKey;

/// Separates the parts of a queue key. No name contains it.
const SEPARATOR: char = '\u{1f}';

pub(super) fn unexpected_reply() -> QueueError {
    QueueError::Unavailable("unexpected reply from the shared store".into())
}

pub(super) fn queue_key_text(queue_key: &DeferredQueueKey) -> String {
    format!("{}{SEPARATOR}{}{SEPARATOR}{}", queue_key.domain, queue_key.rule, queue_key.key)
}

/// Returns the part that all queue keys of a rule have in common.
pub(super) fn rule_part(rule: Option<&str>) -> String {
    rule.map_or_else(String::new, |rule| format!("{SEPARATOR}{rule}{SEPARATOR}"))
}

fn queue_key(text: &str) -> Result<DeferredQueueKey> {
    let mut parts = text.splitn(3, SEPARATOR).map(str::to_owned);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(domain), Some(rule), Some(key)) => Ok(DeferredQueueKey { domain, rule, key }),
        _ => Err(unexpected_reply()),
    }
}

pub(super) fn head(text: &[u8]) -> Result<StoredHead> {
    serde_json::from_slice(text).map_err(|_| unexpected_reply())
}

fn text(reply: ServerReply) -> Result<String> {
    match reply {
        ServerReply::Bytes(bytes) => String::from_utf8(bytes).map_err(|_| unexpected_reply()),
        ServerReply::Int(number) => Ok(number.to_string()),
        _ => Err(unexpected_reply()),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| unexpected_reply())
}

/// Decodes a list of `N` texts.
pub(super) fn texts<const N: usize>(reply: ServerReply) -> Result<[String; N]> {
    let ServerReply::List(parts) = reply else { return Err(unexpected_reply()) };
    let texts: Vec<String> = parts.into_iter().map(text).collect::<Result<_>>()?;
    texts.try_into().map_err(|_| unexpected_reply())
}

/// Decodes the sequence number of a stream entry, whose id is a time and a number.
pub(super) fn seq(entry: &str) -> Result<u64> {
    let (ms, number_text) = entry.split_once('-').ok_or_else(unexpected_reply)?;
    let (ms, sequence): (u64, u64) = (number(ms)?, number(number_text)?);
    Ok(ms << 20 | sequence.min((1 << 20) - 1))
}

pub(super) fn queued_item(reply: ServerReply) -> Result<QueuedItem> {
    let [entry, id, key_text, added, due, failures] = texts(reply)?;
    Ok(QueuedItem {
        seq: seq(&entry)?,
        id: ItemId::parse(&id).ok_or_else(unexpected_reply)?,
        queue_key: Arc::new(queue_key(&key_text)?),
        added_ms: number(&added)?,
        due_ms: number(&due)?,
        failures: number(&failures)?,
    })
}

/// Decodes the number of waiting requests of each queue.
pub(super) fn queue_lengths(reply: ServerReply) -> Result<HashMap<DeferredQueueKey, u64>> {
    let ServerReply::List(parts) = reply else { return Err(unexpected_reply()) };
    let mut parts = parts.into_iter();
    let mut lengths = HashMap::new();
    while let (Some(name), Some(count)) = (parts.next(), parts.next()) {
        lengths.insert(queue_key(&text(name)?)?, number(&text(count)?)?);
    }
    Ok(lengths)
}

pub(super) fn listed(reply: ServerReply) -> Result<ItemDetails> {
    match reply {
        ServerReply::List(parts) => details(parts),
        _ => Err(unexpected_reply()),
    }
}

pub(super) fn details(mut parts: Vec<ServerReply>) -> Result<ItemDetails> {
    let Some(ServerReply::Bytes(body)) = parts.pop() else { return Err(unexpected_reply()) };
    let [
        id,
        key_text,
        head_text,
        bytes,
        state,
        attempts,
        added,
        changed,
        due,
        reason,
        status,
        content_type,
    ] = texts(ServerReply::List(parts))?;
    let head = head(head_text.as_bytes())?;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let status = some(status).map(|status| number(&status)).transpose()?;
    let (content_type, body) =
        (some(content_type), Some(body).filter(|body| !body.is_empty()).map(Into::into));
    Ok(ItemDetails {
        id: ItemId::parse(&id).ok_or_else(unexpected_reply)?,
        queue_key: queue_key(&key_text)?,
        method: head.method,
        target: head.target,
        bytes: number(&bytes)?,
        state: ItemState::parse(&state).ok_or_else(unexpected_reply)?,
        attempts: number(&attempts)?,
        added_ms: number(&added)?,
        changed_ms: number(&changed)?,
        due_ms: number(&due)?,
        reason: some(reason),
        response: status.map(|status| StoredResponse { status, content_type, body }),
    })
}

pub(super) fn summary(reply: ServerReply) -> Result<QueueSummary> {
    let [queued, sending, done, failed, cancelled, oldest] = texts(reply)?;
    let counts = [queued, sending, done, failed, cancelled].map(|count| number::<u64>(&count));
    let mut summary = QueueSummary::default();
    for (slot, count) in summary.counts.iter_mut().zip(counts) {
        *slot = count?;
    }
    summary.oldest_ms = match oldest.as_str() {
        "" => None,
        oldest => Some(number(oldest)?),
    };
    Ok(summary)
}
