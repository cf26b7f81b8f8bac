//! The table of rules files and their versions.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::super::change::Author;
use crate::{clock, digest};

/// The maximum number of stored versions of one file.
const MAX_VERSIONS: i64 = 1000;
/// The maximum total size of the versions of one file; the newest two always stay.
const MAX_VERSION_BYTES: i64 = 64 << 20;

/// The current version of a file.
#[derive(Clone, Debug)]
pub(in super::super) struct CurrentFile {
    pub(in super::super) name: String,
    pub(in super::super) version: u64,
    pub(in super::super) text: String,
    digest: String,
}

/// The metadata of a version, without its text.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct FileVersion {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    version: u64,
    etag: String,
    at: String,
    who: String,
    revision: u64,
    bytes: u64,
    /// Whether this version records the removal of the file.
    removed: bool,
}

/// Returns the strong entity tag of a version. Version numbers are never reused.
pub(in super::super) fn etag(version: u64, digest: &str) -> String {
    format!("\"{version}-{}\"", digest::short(digest))
}

impl CurrentFile {
    pub(in super::super) fn etag(&self) -> String {
        etag(self.version, &self.digest)
    }
}

const IS_LAST: &str =
    "version = (SELECT max(version) FROM versions v WHERE v.name = versions.name)";

pub(in super::super) fn all_current(connection: &Connection) -> rusqlite::Result<Vec<CurrentFile>> {
    let sql = format!(
        "SELECT name, version, text, digest FROM versions
         WHERE {IS_LAST} AND text IS NOT NULL ORDER BY name"
    );
    connection.prepare_cached(&sql)?.query_map([], read_current)?.collect()
}

pub(in super::super) fn current(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<CurrentFile>> {
    let sql = format!(
        "SELECT name, version, text, digest FROM versions
         WHERE name = ?1 AND {IS_LAST} AND text IS NOT NULL"
    );
    connection.prepare_cached(&sql)?.query_row([name], read_current).optional()
}

fn read_current(row: &Row<'_>) -> rusqlite::Result<CurrentFile> {
    let version = row.get::<_, i64>(1)? as u64;
    Ok(CurrentFile { name: row.get(0)?, version, text: row.get(2)?, digest: row.get(3)? })
}

/// Returns the text of a version; `None` if it does not exist or is a removal.
pub(in super::super) fn version_text(
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

/// Returns the versions of a file, newest first.
pub(in super::super) fn history(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Vec<FileVersion>> {
    let sql = format!("SELECT {VERSION} FROM versions WHERE name = ?1 ORDER BY version DESC");
    let unnamed = |row: &Row<'_>| Ok(FileVersion { name: None, ..read_version(row)? });
    connection.prepare_cached(&sql)?.query_map([name], unnamed)?.collect()
}

/// Returns the current versions of all files.
pub(in super::super) fn list(connection: &Connection) -> rusqlite::Result<Vec<FileVersion>> {
    let sql = format!(
        "SELECT {VERSION} FROM versions WHERE {IS_LAST} AND text IS NOT NULL ORDER BY name"
    );
    connection.prepare_cached(&sql)?.query_map([], read_version)?.collect()
}

fn read_version(row: &Row<'_>) -> rusqlite::Result<FileVersion> {
    let (version, digest) = (row.get::<_, i64>(1)? as u64, row.get::<_, String>(2)?);
    Ok(FileVersion {
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

/// Adds a version and returns its number and entity tag. Without a text, it removes the file.
pub(in super::super) fn add(
    connection: &Connection,
    name: &str,
    text: Option<&str>,
    author: &Author,
    revision: u64,
) -> rusqlite::Result<(u64, String)> {
    let next = "SELECT coalesce(max(version), 0) + 1 FROM versions WHERE name = ?1";
    let version: i64 = connection.query_row(next, [name], |row| row.get(0))?;
    let digest = digest::sha256(text.unwrap_or_default().as_bytes());
    connection.execute(
        "INSERT INTO versions (name, version, text, digest, revision, at_ms, who)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![name, version, text, digest, revision as i64, clock::unix_ms(), author.who],
    )?;
    prune(connection, name, version)?;
    Ok((version as u64, etag(version as u64, &digest)))
}

fn prune(connection: &Connection, name: &str, newest: i64) -> rusqlite::Result<()> {
    let sql = "
        DELETE FROM versions WHERE name = ?1 AND (version <= ?2 OR version IN (
            SELECT version FROM (
                SELECT version, sum(coalesce(octet_length(text), 0)) OVER newer AS bytes
                FROM versions WHERE name = ?1 WINDOW newer AS (ORDER BY version DESC)
            ) WHERE bytes > ?3 AND version < ?4
        ))";
    let values = params![name, newest - MAX_VERSIONS, MAX_VERSION_BYTES, newest - 1];
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
    fn the_oldest_versions_are_pruned_by_number_and_by_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = schema::open(&folder.path().join("rules.db"), 1 << 30).unwrap();
        // The transaction is not committed, because the test does not need durability.
        let connection = connection.transaction().unwrap();
        let author = Author { who: "ann".into(), request_id: "1".into() };
        let write = |text: &str| add(&connection, "shop", Some(text), &author, 1).unwrap().0;
        for _ in 0..MAX_VERSIONS + 5 {
            write("rules: []");
        }
        assert_eq!(numbers(&connection).len(), MAX_VERSIONS as usize);
        assert_eq!(numbers(&connection).last(), Some(&6));

        let large = "#".repeat(MAX_VERSION_BYTES as usize / 3);
        let last = [(); 3].map(|()| write(&large))[2];
        assert_eq!(numbers(&connection)[..3], [last, last - 1, last - 2]);
        let last = write(&large);
        assert_eq!(numbers(&connection), [last, last - 1, last - 2]);
    }
}
