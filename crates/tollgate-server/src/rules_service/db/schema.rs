//! The schema of the rules database and its migrations.

use std::path::Path;

use rusqlite::Connection;

use crate::sqlite::DatabaseSchema;

/// The schema of the rules database; the application id is "toll" in ASCII.
const RULES: DatabaseSchema =
    DatabaseSchema { name: "rules database", application_id: 0x746f_6c6c, migrations: MIGRATIONS };

/// One migration per version, in order. Never change a released one; append a new one.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO state (id, revision) VALUES (1, 0);

-- Every version of every file; the highest is the current one, and without a text it is gone.
CREATE TABLE versions (
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT,
    digest TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL,
    PRIMARY KEY (name, version)
) STRICT;

-- Never reuses an id: the audit speaks of it.
CREATE TABLE overrides (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    what TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL
) STRICT;

-- A domain of '' is the only one there is.
CREATE TABLE lists (
    id INTEGER PRIMARY KEY,
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    UNIQUE (domain, name)
) STRICT;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    list INTEGER NOT NULL REFERENCES lists (id) ON DELETE CASCADE,
    entry TEXT NOT NULL,
    UNIQUE (list, entry)
) STRICT;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    from_version INTEGER,
    to_version INTEGER,
    revision INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_subject ON audit (subject, id);
",
    "
-- Never reuses an id: the audit speaks of it.
CREATE TABLE bans (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    what TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL
) STRICT;
",
    "
-- Never reuses an id: the audit speaks of it.
CREATE TABLE modes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    what TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL
) STRICT;
",
];

/// Opens the database file, creating or migrating it as needed.
pub(super) fn open(path: &Path, max_size: u64) -> Result<Connection, String> {
    RULES.open(path, max_size).map_err(|error| error.reason)
}

/// Opens a database in memory.
pub(super) fn in_memory(max_size: u64) -> Result<Connection, String> {
    RULES.in_memory(max_size).map_err(|error| error.reason)
}

/// Returns the number of changes so far.
pub(in super::super) fn revision(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT revision FROM state";
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|revision| revision as u64)
}

/// Stores the number of changes.
pub(in super::super) fn set_revision(
    connection: &Connection,
    revision: u64,
) -> rusqlite::Result<()> {
    connection.execute("UPDATE state SET revision = ?1", [revision as i64]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;

    #[test]
    fn a_database_is_created_once_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.db");
        set_revision(&open(&path, SIZE).unwrap(), 7).unwrap();
        assert_eq!(revision(&open(&path, SIZE).unwrap()), Ok(7));
    }

    /// Later versions must read these databases, of which each is the text of one schema version. To
    /// add one, dump the database that `spec/formats/README.md` describes.
    #[test]
    fn databases_of_every_schema_version_are_read() {
        let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/formats");
        let read = |name: &str| std::fs::read_to_string(formats.join(name)).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&read("rules.json")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for version in 1..=MIGRATIONS.len() {
            let dump = read(&format!("rules-{version}.sql"));
            let path = folder.path().join(format!("rules-{version}.db"));
            Connection::open(&path).unwrap().execute_batch(&dump).unwrap();
            let database = open(&path, SIZE).unwrap();
            let bundle = super::super::load(&database, None).unwrap();
            let mut expected = expected.clone();
            // The first versions had no table of bans, or none of modes.
            for (since, field) in [(2, "bans"), (3, "modes")] {
                if version < since {
                    expected["data"][field] = serde_json::json!([]);
                }
            }
            let found = serde_json::to_value(&bundle).unwrap();
            assert_eq!(found["files"], expected["files"], "version {version}");
            for field in ["overrides", "lists", "bans", "modes"] {
                let or_empty = |data: &serde_json::Value| match &data["data"][field] {
                    serde_json::Value::Null => serde_json::json!([]),
                    other => other.clone(),
                };
                assert_eq!(or_empty(&found), or_empty(&expected), "version {version}: {field}");
            }
            let audited = "SELECT count(*) FROM audit";
            let audited: i64 = database.query_row(audited, [], |row| row.get(0)).unwrap();
            assert!(audited > 0, "version {version}");
        }
    }

    #[test]
    fn foreign_newer_and_corrupt_databases_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("foreign.db");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE mine (a)").unwrap();
        assert!(open(&foreign, SIZE).unwrap_err().contains("not a rules database"));

        let newer = folder.path().join("newer.db");
        open(&newer, SIZE).unwrap().pragma_update(None, "user_version", 99).unwrap();
        assert!(open(&newer, SIZE).unwrap_err().contains("newer tollgate"));

        let garbage = folder.path().join("garbage.db");
        std::fs::write(&garbage, "no database at all, whatever its name says".repeat(50)).unwrap();
        assert!(open(&garbage, SIZE).unwrap_err().contains("damaged"));
    }
}
