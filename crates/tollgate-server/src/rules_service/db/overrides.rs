//! Overrides as data: exceptions that come and go without a rules file.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use tollgate::rules::OverrideData;

use super::super::change::Author;
use crate::clock;

/// An override, and who made it.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Stored {
    pub(in super::super) id: u64,
    #[serde(rename = "override")]
    pub(in super::super) what: OverrideData,
    at: String,
    who: String,
    revision: u64,
}

const COLUMNS: &str = "id, what, strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000.0, 'unixepoch'),
    who, revision";

/// All of them, the oldest first.
pub(in super::super) fn all(connection: &Connection) -> rusqlite::Result<Vec<Stored>> {
    let sql = format!("SELECT {COLUMNS} FROM overrides ORDER BY id");
    connection.prepare_cached(&sql)?.query_map([], stored)?.collect()
}

pub(in super::super) fn get(connection: &Connection, id: u64) -> rusqlite::Result<Option<Stored>> {
    let sql = format!("SELECT {COLUMNS} FROM overrides WHERE id = ?1");
    connection.prepare_cached(&sql)?.query_row([id as i64], stored).optional()
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let what: String = row.get(1)?;
    let what = serde_json::from_str(&what).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into())
    })?;
    let (id, revision) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(4)? as u64);
    Ok(Stored { id, what, at: row.get(2)?, who: row.get(3)?, revision })
}

/// Adds one; says its id.
pub(in super::super) fn add(
    connection: &Connection,
    what: &OverrideData,
    author: &Author,
    revision: u64,
) -> rusqlite::Result<u64> {
    let text = serde_json::to_string(what)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection.execute(
        "INSERT INTO overrides (what, revision, at_ms, who) VALUES (?1, ?2, ?3, ?4)",
        params![text, revision as i64, clock::unix_ms(), author.who],
    )?;
    Ok(connection.last_insert_rowid() as u64)
}

pub(in super::super) fn remove(connection: &Connection, id: u64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM overrides WHERE id = ?1", [id as i64]).map(drop)
}
