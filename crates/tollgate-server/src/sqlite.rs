//! SQLite databases in the data folder: creation, migration and verification.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

const PAGE: u64 = 4096;

/// The schema of a database: its identity and its migrations.
#[derive(Debug)]
pub(crate) struct DatabaseSchema {
    /// The name of the database in errors.
    pub(crate) name: &'static str,
    /// The SQLite application id, which distinguishes this database from that of another program.
    pub(crate) application_id: i32,
    /// One migration per version, in order. Never change a released one; append a new one.
    pub(crate) migrations: &'static [&'static str],
}

/// The reason why a database cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DatabaseError {
    pub(crate) reason: String,
    /// Whether the content is corrupt. Otherwise the file may be valid but unusable here.
    pub(crate) is_corrupt: bool,
}

impl DatabaseSchema {
    /// Opens a database file, creating or migrating it as needed.
    pub(crate) fn open(&self, path: &Path, max_size: u64) -> Result<Connection, DatabaseError> {
        create_private(path).map_err(|error| DatabaseError::unusable(error.to_string()))?;
        self.prepared(Connection::open(path), max_size)
    }

    /// Opens a database in memory.
    pub(crate) fn in_memory(&self, max_size: u64) -> Result<Connection, DatabaseError> {
        self.prepared(Connection::open_in_memory(), max_size)
    }

    fn prepared(
        &self,
        opened: rusqlite::Result<Connection>,
        max_size: u64,
    ) -> Result<Connection, DatabaseError> {
        let mut connection = opened.map_err(|error| DatabaseError::unusable(error.to_string()))?;
        self.prepare(&mut connection, max_size).map_err(|error| {
            match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
                    DatabaseError::corrupt(format!("restore a backup, or move it away ({error})"))
                }
                _ => DatabaseError::unusable(error.to_string()),
            }
        })??;
        Ok(connection)
    }

    fn prepare(
        &self,
        connection: &mut Connection,
        max_size: u64,
    ) -> rusqlite::Result<Result<(), DatabaseError>> {
        connection.busy_timeout(Duration::from_secs(5))?;
        let number = |connection: &Connection, pragma: &str| {
            connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
        };
        let (version, application) =
            (number(connection, "user_version")?, number(connection, "application_id")?);
        let tables = number(connection, "schema_version")?;
        if application != i64::from(self.application_id) && tables > 0 {
            let reason = format!("this is not a {} of tollgate", self.name);
            return Ok(Err(DatabaseError::unusable(reason)));
        }
        if version > self.migrations.len() as i64 {
            let reason = "this database was made by a newer tollgate".into();
            return Ok(Err(DatabaseError::unusable(reason)));
        }
        let check: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        if check != "ok" {
            return Ok(Err(DatabaseError::corrupt(format!("restore a backup ({check})"))));
        }
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF; PRAGMA journal_size_limit = 16777216;",
        )?;
        for (number, migration) in (1..).zip(self.migrations).skip(version.max(0) as usize) {
            let transaction = connection.transaction()?;
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "user_version", number)?;
            transaction.pragma_update(None, "application_id", self.application_id)?;
            transaction.commit()?;
        }
        let pages = i64::try_from(max_size / PAGE).unwrap_or(i64::MAX).max(1);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        Ok(Ok(()))
    }
}

impl DatabaseError {
    fn unusable(reason: String) -> DatabaseError {
        DatabaseError { reason, is_corrupt: false }
    }

    fn corrupt(remedy: String) -> DatabaseError {
        DatabaseError { reason: format!("the database is damaged; {remedy}"), is_corrupt: true }
    }
}

/// Creates a database file that only its owner can read.
///
/// SQLite gives its journal files the same permissions.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
