//! Queries of the deferred queue on disk.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::item::{
    ItemDetails, ItemFilter, ItemId, ItemState, QueueSummary, QueuedItem, StoredHead,
    StoredResponse,
};
use super::super::queue_key::DeferredQueueKey;

/// The columns of a [`QueuedItem`].
pub(super) const QUEUED_COLUMNS: &str = "seq, id, domain, rule, key, added_ms, due_ms, failures";
/// The columns of an [`ItemDetails`].
const DETAIL_COLUMNS: &str = "id, domain, rule, key, head, bytes, state, attempts, added_ms, changed_ms, \
                     due_ms, why, status, kind, answer";

pub(super) fn queued_item(row: &Row<'_>) -> rusqlite::Result<QueuedItem> {
    Ok(QueuedItem {
        seq: row.get::<_, i64>(0)? as u64,
        id: id(row, 1)?,
        queue_key: Arc::new(queue_key(row, 2)?),
        added_ms: row.get(5)?,
        due_ms: row.get(6)?,
        failures: row.get(7)?,
    })
}

pub(super) fn head(row: &Row<'_>, column: usize) -> rusqlite::Result<StoredHead> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| invalid(column, error.to_string()))
}

fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<ItemId> {
    let text: String = row.get(column)?;
    ItemId::parse(&text).ok_or_else(|| invalid(column, format!("{text:?} is no id")))
}

/// Reads a queue's domain, rule and key from three columns.
fn queue_key(row: &Row<'_>, from: usize) -> rusqlite::Result<DeferredQueueKey> {
    Ok(DeferredQueueKey {
        domain: row.get(from)?,
        rule: row.get(from + 1)?,
        key: row.get(from + 2)?,
    })
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<ItemState> {
    let text: String = row.get(column)?;
    ItemState::parse(&text).ok_or_else(|| invalid(column, format!("{text:?} is no state")))
}

fn invalid(column: usize, reason: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, reason.into())
}

fn item_details(row: &Row<'_>) -> rusqlite::Result<ItemDetails> {
    let head = head(row, 4)?;
    let status: Option<u16> = row.get(12)?;
    let (content_type, body): (Option<String>, Option<Vec<u8>>) = (row.get(13)?, row.get(14)?);
    Ok(ItemDetails {
        id: id(row, 0)?,
        queue_key: queue_key(row, 1)?,
        method: head.method,
        target: head.target,
        bytes: row.get::<_, i64>(5)? as u64,
        state: state(row, 6)?,
        attempts: row.get(7)?,
        added_ms: row.get(8)?,
        changed_ms: row.get(9)?,
        due_ms: row.get(10)?,
        reason: row.get(11)?,
        response: status.map(|status| StoredResponse {
            status,
            content_type,
            body: body.map(Into::into),
        }),
    })
}

pub(super) fn all_queued(connection: &Connection) -> rusqlite::Result<Vec<QueuedItem>> {
    let sql = format!("SELECT {QUEUED_COLUMNS} FROM items WHERE state = 'queued' ORDER BY seq");
    connection.prepare(&sql)?.query_map([], queued_item)?.collect()
}

/// Returns the attempts since a time with their heads, newest first.
pub(super) fn attempts(
    connection: &Connection,
    since_ms: i64,
    most: usize,
) -> rusqlite::Result<Vec<(i64, StoredHead)>> {
    let sql = "SELECT at_ms, head FROM attempts JOIN items USING (seq) WHERE at_ms >= ?1 \
               ORDER BY at_ms DESC LIMIT ?2";
    let row = |row: &Row<'_>| Ok((row.get(0)?, head(row, 1)?));
    connection.prepare(sql)?.query_map(params![since_ms, most as i64], row)?.collect()
}

pub(super) fn one_head(
    connection: &Connection,
    id: ItemId,
) -> rusqlite::Result<Option<StoredHead>> {
    let sql = "SELECT head FROM items WHERE id = ?1 AND state = 'queued'";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row([id.to_string()], |row| head(row, 0)).optional()
}

pub(super) fn details(
    connection: &Connection,
    id: ItemId,
) -> rusqlite::Result<Option<ItemDetails>> {
    let sql = format!("SELECT {DETAIL_COLUMNS} FROM items WHERE id = ?1");
    connection.prepare_cached(&sql)?.query_row([id.to_string()], item_details).optional()
}

pub(super) fn list(
    connection: &Connection,
    filter: &ItemFilter,
) -> rusqlite::Result<Vec<ItemDetails>> {
    let sql = format!(
        "SELECT {DETAIL_COLUMNS} FROM items WHERE (?1 IS NULL OR state = ?1) \
         AND (?2 IS NULL OR rule = ?2) ORDER BY seq DESC LIMIT ?3"
    );
    let state = filter.state.map(ItemState::as_str);
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(params![state, filter.rule, filter.limit as i64], item_details)?.collect()
}

pub(super) fn summary(connection: &Connection) -> rusqlite::Result<QueueSummary> {
    let mut summary = QueueSummary::default();
    let sql = "SELECT state, count(*), min(added_ms) FROM items GROUP BY state";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state = state(row, 0)?;
        summary.counts[state as usize] = row.get::<_, i64>(1)? as u64;
        if state.is_open() {
            let oldest: i64 = row.get(2)?;
            summary.oldest_ms = Some(summary.oldest_ms.map_or(oldest, |old| old.min(oldest)));
        }
    }
    Ok(summary)
}
