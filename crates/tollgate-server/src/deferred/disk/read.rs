//! What is read of deferred requests.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate::rules::DeferLine;

use super::super::item::{Answer, Entry, Head, ItemId, State, Summary, Waiting, Wanted};

/// The columns of a [`Waiting`].
pub(super) const WAITING: &str = "seq, id, domain, rule, key, added_ms, due_ms, failures";
const ENTRY: &str = "id, domain, rule, key, head, bytes, state, attempts, added_ms, changed_ms, \
                     due_ms, why, status, kind, answer";

pub(super) fn waiting(row: &Row<'_>) -> rusqlite::Result<Waiting> {
    Ok(Waiting {
        seq: row.get::<_, i64>(0)? as u64,
        id: id(row, 1)?,
        line: Arc::new(line(row, 2)?),
        added_ms: row.get(5)?,
        due_ms: row.get(6)?,
        failures: row.get(7)?,
    })
}

pub(super) fn head(row: &Row<'_>, column: usize) -> rusqlite::Result<Head> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| strange(column, error.to_string()))
}

fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<ItemId> {
    let text: String = row.get(column)?;
    ItemId::parse(&text).ok_or_else(|| strange(column, format!("{text:?} is no id")))
}

/// Three columns from one on.
fn line(row: &Row<'_>, from: usize) -> rusqlite::Result<DeferLine> {
    Ok(DeferLine { domain: row.get(from)?, rule: row.get(from + 1)?, key: row.get(from + 2)? })
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    let text: String = row.get(column)?;
    State::parse(&text).ok_or_else(|| strange(column, format!("{text:?} is no state")))
}

fn strange(column: usize, why: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let head = head(row, 4)?;
    let status: Option<u16> = row.get(12)?;
    let (kind, body): (Option<String>, Option<Vec<u8>>) = (row.get(13)?, row.get(14)?);
    Ok(Entry {
        id: id(row, 0)?,
        line: line(row, 1)?,
        method: head.method,
        target: head.target,
        bytes: row.get::<_, i64>(5)? as u64,
        state: state(row, 6)?,
        attempts: row.get(7)?,
        added_ms: row.get(8)?,
        changed_ms: row.get(9)?,
        due_ms: row.get(10)?,
        why: row.get(11)?,
        answer: status.map(|status| Answer { status, kind, body: body.map(Into::into) }),
    })
}

pub(super) fn all_waiting(connection: &Connection) -> rusqlite::Result<Vec<Waiting>> {
    let sql = format!("SELECT {WAITING} FROM items WHERE state = 'queued' ORDER BY seq");
    connection.prepare(&sql)?.query_map([], waiting)?.collect()
}

/// What was sent since then, the last first, and when.
pub(super) fn attempts(
    connection: &Connection,
    since_ms: i64,
    most: usize,
) -> rusqlite::Result<Vec<(i64, Head)>> {
    let sql = "SELECT at_ms, head FROM attempts JOIN items USING (seq) WHERE at_ms >= ?1 \
               ORDER BY at_ms DESC LIMIT ?2";
    let row = |row: &Row<'_>| Ok((row.get(0)?, head(row, 1)?));
    connection.prepare(sql)?.query_map(params![since_ms, most as i64], row)?.collect()
}

pub(super) fn one_head(connection: &Connection, id: ItemId) -> rusqlite::Result<Option<Head>> {
    let sql = "SELECT head FROM items WHERE id = ?1 AND state = 'queued'";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row([id.to_string()], |row| head(row, 0)).optional()
}

pub(super) fn one_entry(connection: &Connection, id: ItemId) -> rusqlite::Result<Option<Entry>> {
    let sql = format!("SELECT {ENTRY} FROM items WHERE id = ?1");
    connection.prepare_cached(&sql)?.query_row([id.to_string()], entry).optional()
}

pub(super) fn list(connection: &Connection, wanted: &Wanted) -> rusqlite::Result<Vec<Entry>> {
    let sql = format!(
        "SELECT {ENTRY} FROM items WHERE (?1 IS NULL OR state = ?1) \
         AND (?2 IS NULL OR rule = ?2) ORDER BY seq DESC LIMIT ?3"
    );
    let state = wanted.state.map(State::as_str);
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(params![state, wanted.rule, wanted.limit as i64], entry)?.collect()
}

pub(super) fn summary(connection: &Connection) -> rusqlite::Result<Summary> {
    let mut summary = Summary::default();
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
