//! The tables of overrides, bans and modes, which change without a rules file.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_rules::{BanData, ModeData, OverrideData};

use super::super::change::Author;
use crate::clock;

/// A kind of data whose elements have numeric ids.
pub(in super::super) trait Element:
    Serialize + DeserializeOwned + Send + 'static
{
    /// The name of one element.
    const NAME: &'static str;
    /// The name of the table, which is also the path segment.
    const TABLE: &'static str;
    /// The audit action of adding an element.
    const ADD: &'static str;
    /// The audit action of removing an element.
    const REMOVE: &'static str;
}

impl Element for OverrideData {
    const NAME: &'static str = "override";
    const TABLE: &'static str = "overrides";
    const ADD: &'static str = "override.add";
    const REMOVE: &'static str = "override.remove";
}

impl Element for BanData {
    const NAME: &'static str = "ban";
    const TABLE: &'static str = "bans";
    const ADD: &'static str = "ban.add";
    const REMOVE: &'static str = "ban.remove";
}

impl Element for ModeData {
    const NAME: &'static str = "mode";
    const TABLE: &'static str = "modes";
    const ADD: &'static str = "mode.set";
    const REMOVE: &'static str = "mode.remove";
}

/// A stored element and its author.
#[derive(Clone, Debug)]
pub(in super::super) struct StoredElement<T> {
    pub(in super::super) id: u64,
    pub(in super::super) data: T,
    pub(in super::super) at: String,
    pub(in super::super) who: String,
    pub(in super::super) revision: u64,
}

const COLUMNS: &str = "id, what, strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000.0, 'unixepoch'),
    who, revision";

/// Returns all elements, oldest first.
pub(in super::super) fn all<T: Element>(
    connection: &Connection,
) -> rusqlite::Result<Vec<StoredElement<T>>> {
    let sql = format!("SELECT {COLUMNS} FROM {} ORDER BY id", T::TABLE);
    connection.prepare_cached(&sql)?.query_map([], stored)?.collect()
}

pub(in super::super) fn get<T: Element>(
    connection: &Connection,
    id: u64,
) -> rusqlite::Result<Option<StoredElement<T>>> {
    let sql = format!("SELECT {COLUMNS} FROM {} WHERE id = ?1", T::TABLE);
    connection.prepare_cached(&sql)?.query_row([id as i64], stored).optional()
}

fn stored<T: Element>(row: &Row<'_>) -> rusqlite::Result<StoredElement<T>> {
    let data: String = row.get(1)?;
    let data = serde_json::from_str(&data).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into())
    })?;
    let (id, revision) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(4)? as u64);
    Ok(StoredElement { id, data, at: row.get(2)?, who: row.get(3)?, revision })
}

/// Adds an element and returns its id.
pub(in super::super) fn add<T: Element>(
    connection: &Connection,
    data: &T,
    author: &Author,
    revision: u64,
) -> rusqlite::Result<u64> {
    let text = serde_json::to_string(data)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let sql =
        format!("INSERT INTO {} (what, revision, at_ms, who) VALUES (?1, ?2, ?3, ?4)", T::TABLE);
    connection.execute(&sql, params![text, revision as i64, clock::unix_ms(), author.who])?;
    Ok(connection.last_insert_rowid() as u64)
}

pub(in super::super) fn remove<T: Element>(
    connection: &Connection,
    id: u64,
) -> rusqlite::Result<()> {
    connection.execute(&format!("DELETE FROM {} WHERE id = ?1", T::TABLE), [id as i64]).map(drop)
}
