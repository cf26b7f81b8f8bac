//! The table of lists, whose entries change without a rules file.

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_rules::ListData;

/// A stored list with its entries.
#[derive(Clone, Debug)]
pub(in super::super) struct StoredList {
    id: i64,
    pub(in super::super) data: ListData,
    pub(in super::super) revision: u64,
}

impl StoredList {
    pub(in super::super) fn etag(&self) -> String {
        etag(self.revision)
    }
}

/// Returns the entity tag of a revision, which is unique because every change has its own.
pub(in super::super) fn etag(revision: u64) -> String {
    format!("\"r{revision}\"")
}

pub(in super::super) fn all(connection: &Connection) -> rusqlite::Result<Vec<StoredList>> {
    let sql = "SELECT domain, name FROM lists ORDER BY domain, name";
    let names: Vec<(String, String)> = connection
        .prepare_cached(sql)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let lists = names.iter().map(|(domain, name)| get(connection, domain, name));
    lists.filter_map(Result::transpose).collect()
}

pub(in super::super) fn get(
    connection: &Connection,
    domain: &str,
    name: &str,
) -> rusqlite::Result<Option<StoredList>> {
    let sql = "SELECT id, revision FROM lists WHERE domain = ?1 AND name = ?2";
    let found = connection
        .prepare_cached(sql)?
        .query_row([domain, name], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let Some((id, revision)) = found else { return Ok(None) };
    let entries = connection
        .prepare_cached("SELECT entry FROM entries WHERE list = ?1 ORDER BY id")?
        .query_map([id], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let domain = (!domain.is_empty()).then(|| domain.to_owned());
    let data = ListData { domain, name: name.to_owned(), entries };
    Ok(Some(StoredList { id, data, revision: revision as u64 }))
}

/// Creates a list or marks it as changed, and returns its id.
fn touch(
    connection: &Connection,
    domain: &str,
    name: &str,
    revision: u64,
) -> rusqlite::Result<i64> {
    connection.query_row(
        "INSERT INTO lists (domain, name, revision) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET revision = excluded.revision RETURNING id",
        params![domain, name, revision as i64],
        |row| row.get(0),
    )
}

/// Replaces all entries of a list, creating the list if needed.
pub(in super::super) fn set(
    connection: &Connection,
    domain: &str,
    name: &str,
    entries: &[String],
    revision: u64,
) -> rusqlite::Result<()> {
    let id = touch(connection, domain, name, revision)?;
    connection.execute("DELETE FROM entries WHERE list = ?1", [id])?;
    insert(connection, id, entries).map(drop)
}

/// Adds entries and returns how many are new.
pub(in super::super) fn add_entries(
    connection: &Connection,
    list: &StoredList,
    entries: &[String],
    revision: u64,
) -> rusqlite::Result<usize> {
    let domain = list.data.domain.as_deref().unwrap_or_default();
    touch(connection, domain, &list.data.name, revision)?;
    insert(connection, list.id, entries)
}

/// Removes entries and returns how many existed.
pub(in super::super) fn remove_entries(
    connection: &Connection,
    list: &StoredList,
    entries: &[String],
    revision: u64,
) -> rusqlite::Result<usize> {
    let domain = list.data.domain.as_deref().unwrap_or_default();
    touch(connection, domain, &list.data.name, revision)?;
    let mut remove =
        connection.prepare_cached("DELETE FROM entries WHERE list = ?1 AND entry = ?2")?;
    entries.iter().try_fold(0, |sum, entry| Ok(sum + remove.execute(params![list.id, entry])?))
}

fn insert(connection: &Connection, id: i64, entries: &[String]) -> rusqlite::Result<usize> {
    let sql = "INSERT INTO entries (list, entry) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    let mut insert = connection.prepare_cached(sql)?;
    entries.iter().try_fold(0, |sum, entry| Ok(sum + insert.execute(params![id, entry])?))
}

pub(in super::super) fn remove(connection: &Connection, list: &StoredList) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM lists WHERE id = ?1", [list.id]).map(drop)
}
