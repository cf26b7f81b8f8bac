//! Overrides, bans and modes as data: elements that come and go without a rules file.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate::rules::{BanData, ModeData, OverrideData};

use super::super::change::Author;
use crate::clock;

/// A kind of data of which there are many, each known by a number.
pub(in super::super) trait Element:
    Serialize + DeserializeOwned + Send + 'static
{
    /// What one is called.
    const NAME: &'static str;
    /// The table they are in, which is also their name in an address.
    const TABLE: &'static str;
    /// What adding and removing one is called in the audit.
    const ADD: &'static str;
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

/// An element, and who made it.
#[derive(Clone, Debug)]
pub(in super::super) struct Stored<T> {
    pub(in super::super) id: u64,
    pub(in super::super) what: T,
    pub(in super::super) at: String,
    pub(in super::super) who: String,
    pub(in super::super) revision: u64,
}

const COLUMNS: &str = "id, what, strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000.0, 'unixepoch'),
    who, revision";

/// All of them, the oldest first.
pub(in super::super) fn all<T: Element>(
    connection: &Connection,
) -> rusqlite::Result<Vec<Stored<T>>> {
    let sql = format!("SELECT {COLUMNS} FROM {} ORDER BY id", T::TABLE);
    connection.prepare_cached(&sql)?.query_map([], stored)?.collect()
}

pub(in super::super) fn get<T: Element>(
    connection: &Connection,
    id: u64,
) -> rusqlite::Result<Option<Stored<T>>> {
    let sql = format!("SELECT {COLUMNS} FROM {} WHERE id = ?1", T::TABLE);
    connection.prepare_cached(&sql)?.query_row([id as i64], stored).optional()
}

fn stored<T: Element>(row: &Row<'_>) -> rusqlite::Result<Stored<T>> {
    let what: String = row.get(1)?;
    let what = serde_json::from_str(&what).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into())
    })?;
    let (id, revision) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(4)? as u64);
    Ok(Stored { id, what, at: row.get(2)?, who: row.get(3)?, revision })
}

/// Adds one; says its id.
pub(in super::super) fn add<T: Element>(
    connection: &Connection,
    what: &T,
    author: &Author,
    revision: u64,
) -> rusqlite::Result<u64> {
    let text = serde_json::to_string(what)
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
