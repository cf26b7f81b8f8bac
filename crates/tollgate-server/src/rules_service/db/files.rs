//! Versions of rules files.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::super::change::Author;
use crate::{clock, digest};

/// Versions of one file that are kept; the oldest go first.
const KEPT: i64 = 1000;
/// What they may have together, so that large files do not fill the database. The newest two
/// stay whatever they have.
const KEPT_BYTES: i64 = 64 << 20;

/// The current version of a file.
#[derive(Clone, Debug)]
pub(in super::super) struct Current {
    pub(in super::super) name: String,
    pub(in super::super) version: u64,
    pub(in super::super) text: String,
    digest: String,
}

/// A version, without its text.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Version {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    version: u64,
    etag: String,
    at: String,
    who: String,
    revision: u64,
    bytes: u64,
    /// Whether this version is that the file was removed.
    removed: bool,
}

/// The strong ETag of a version: versions are never counted anew, not even after a removal.
pub(in super::super) fn etag(version: u64, digest: &str) -> String {
    format!("\"{version}-{}\"", digest::short(digest))
}

impl Current {
    pub(in super::super) fn etag(&self) -> String {
        etag(self.version, &self.digest)
    }
}

const IS_LAST: &str =
    "version = (SELECT max(version) FROM versions v WHERE v.name = versions.name)";

pub(in super::super) fn all_current(connection: &Connection) -> rusqlite::Result<Vec<Current>> {
    let sql = format!(
        "SELECT name, version, text, digest FROM versions
         WHERE {IS_LAST} AND text IS NOT NULL ORDER BY name"
    );
    connection.prepare_cached(&sql)?.query_map([], current_of)?.collect()
}

pub(in super::super) fn current(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<Current>> {
    let sql = format!(
        "SELECT name, version, text, digest FROM versions
         WHERE name = ?1 AND {IS_LAST} AND text IS NOT NULL"
    );
    connection.prepare_cached(&sql)?.query_row([name], current_of).optional()
}

fn current_of(row: &Row<'_>) -> rusqlite::Result<Current> {
    let version = row.get::<_, i64>(1)? as u64;
    Ok(Current { name: row.get(0)?, version, text: row.get(2)?, digest: row.get(3)? })
}

/// The text of one version; `None` if there is no such version or it is a removal.
pub(in super::super) fn text_of(
    connection: &Connection,
    name: &str,
    version: u64,
) -> rusqlite::Result<Option<(String, String)>> {
    let sql = "SELECT text, digest FROM versions
               WHERE name = ?1 AND version = ?2 AND text IS NOT NULL";
    let text = |row: &Row<'_>| {
        let digest: String = row.get(1)?;
        Ok((row.get(0)?, etag(version, &digest)))
    };
    connection.prepare_cached(sql)?.query_row(params![name, version as i64], text).optional()
}

const VERSION: &str = "name, version, digest,
    strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000.0, 'unixepoch'), who, revision,
    coalesce(length(CAST(text AS BLOB)), 0), text IS NULL";

/// The versions of a file, the newest first.
pub(in super::super) fn history(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Vec<Version>> {
    let sql = format!("SELECT {VERSION} FROM versions WHERE name = ?1 ORDER BY version DESC");
    let unnamed = |row: &Row<'_>| Ok(Version { name: None, ..version_of(row)? });
    connection.prepare_cached(&sql)?.query_map([name], unnamed)?.collect()
}

/// The files there are.
pub(in super::super) fn list(connection: &Connection) -> rusqlite::Result<Vec<Version>> {
    let sql = format!(
        "SELECT {VERSION} FROM versions WHERE {IS_LAST} AND text IS NOT NULL ORDER BY name"
    );
    connection.prepare_cached(&sql)?.query_map([], version_of)?.collect()
}

fn version_of(row: &Row<'_>) -> rusqlite::Result<Version> {
    let (version, digest) = (row.get::<_, i64>(1)? as u64, row.get::<_, String>(2)?);
    Ok(Version {
        name: row.get(0)?,
        version,
        etag: etag(version, &digest),
        at: row.get(3)?,
        who: row.get(4)?,
        revision: row.get::<_, i64>(5)? as u64,
        bytes: row.get::<_, i64>(6)? as u64,
        removed: row.get(7)?,
    })
}

/// Adds a version; without a text the file is gone. Says its number and ETag.
pub(in super::super) fn add(
    connection: &Connection,
    name: &str,
    text: Option<&str>,
    author: &Author,
    revision: u64,
) -> rusqlite::Result<(u64, String)> {
    let next = "SELECT coalesce(max(version), 0) + 1 FROM versions WHERE name = ?1";
    let version: i64 = connection.query_row(next, [name], |row| row.get(0))?;
    let digest = digest::of(text.unwrap_or_default().as_bytes());
    connection.execute(
        "INSERT INTO versions (name, version, text, digest, revision, at_ms, who)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![name, version, text, digest, revision as i64, clock::unix_ms(), author.who],
    )?;
    forget(connection, name, version)?;
    Ok((version as u64, etag(version as u64, &digest)))
}

fn forget(connection: &Connection, name: &str, newest: i64) -> rusqlite::Result<()> {
    let sql = "
        DELETE FROM versions WHERE name = ?1 AND (version <= ?2 OR version IN (
            SELECT version FROM (
                SELECT version, sum(coalesce(octet_length(text), 0)) OVER newer AS bytes
                FROM versions WHERE name = ?1 WINDOW newer AS (ORDER BY version DESC)
            ) WHERE bytes > ?3 AND version < ?4
        ))";
    let values = params![name, newest - KEPT, KEPT_BYTES, newest - 1];
    connection.execute(sql, values).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    fn numbers(connection: &Connection) -> Vec<u64> {
        history(connection, "shop").unwrap().iter().map(|version| version.version).collect()
    }

    #[test]
    fn the_oldest_versions_are_forgotten_by_number_and_by_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = schema::open(&folder.path().join("rules.db"), 1 << 30).unwrap();
        // Not committed: this is about which rows stay, not about the disk.
        let connection = connection.transaction().unwrap();
        let author = Author { who: "ann".into(), request_id: "1".into() };
        let write = |text: &str| add(&connection, "shop", Some(text), &author, 1).unwrap().0;
        for _ in 0..KEPT + 5 {
            write("rules: []");
        }
        assert_eq!(numbers(&connection).len(), KEPT as usize);
        assert_eq!(numbers(&connection).last(), Some(&6));

        let large = "#".repeat(KEPT_BYTES as usize / 3);
        let last = [(); 3].map(|()| write(&large))[2];
        assert_eq!(numbers(&connection)[..3], [last, last - 1, last - 2]);
        let last = write(&large);
        assert_eq!(numbers(&connection), [last, last - 1, last - 2]);
    }
}
