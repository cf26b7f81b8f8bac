//! Databases in the data folder: made, brought up to date, and known to be ours.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

const PAGE: u64 = 4096;

/// What a database is for.
#[derive(Debug)]
pub(crate) struct Purpose {
    /// What it is called in errors.
    pub(crate) name: &'static str,
    /// Tells our database from somebody else's.
    pub(crate) application: i32,
    /// One step for each version, in order. Never change one that was released: add another.
    pub(crate) steps: &'static [&'static str],
}

/// Why a database cannot be used, as a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) why: String,
    /// Whether its content is broken; otherwise it may be fine and is only not for us.
    pub(crate) is_damaged: bool,
}

impl Purpose {
    /// Opens the database, makes it or brings it up to date.
    pub(crate) fn open(&self, path: &Path, max_size: u64) -> Result<Connection, Unusable> {
        make_private(path).map_err(|error| Unusable::sound(error.to_string()))?;
        self.prepared(Connection::open(path), max_size)
    }

    /// A database that nothing outlives.
    pub(crate) fn in_memory(&self, max_size: u64) -> Result<Connection, Unusable> {
        self.prepared(Connection::open_in_memory(), max_size)
    }

    fn prepared(
        &self,
        opened: rusqlite::Result<Connection>,
        max_size: u64,
    ) -> Result<Connection, Unusable> {
        let mut connection = opened.map_err(|error| Unusable::sound(error.to_string()))?;
        self.prepare(&mut connection, max_size).map_err(|error| {
            match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
                    Unusable::damaged(format!("restore a backup, or move it away ({error})"))
                }
                _ => Unusable::sound(error.to_string()),
            }
        })??;
        Ok(connection)
    }

    fn prepare(
        &self,
        connection: &mut Connection,
        max_size: u64,
    ) -> rusqlite::Result<Result<(), Unusable>> {
        connection.busy_timeout(Duration::from_secs(5))?;
        let number = |connection: &Connection, pragma: &str| {
            connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
        };
        let (version, application) =
            (number(connection, "user_version")?, number(connection, "application_id")?);
        let tables = number(connection, "schema_version")?;
        if application != i64::from(self.application) && tables > 0 {
            let why = format!("this is not a {} of tollgate", self.name);
            return Ok(Err(Unusable::sound(why)));
        }
        if version > self.steps.len() as i64 {
            return Ok(Err(Unusable::sound("this database was made by a newer tollgate".into())));
        }
        let sound: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        if sound != "ok" {
            return Ok(Err(Unusable::damaged(format!("restore a backup ({sound})"))));
        }
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF; PRAGMA journal_size_limit = 16777216;",
        )?;
        for (number, step) in (1..).zip(self.steps).skip(version.max(0) as usize) {
            let transaction = connection.transaction()?;
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "user_version", number)?;
            transaction.pragma_update(None, "application_id", self.application)?;
            transaction.commit()?;
        }
        let pages = i64::try_from(max_size / PAGE).unwrap_or(i64::MAX).max(1);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        Ok(Ok(()))
    }
}

impl Unusable {
    fn sound(why: String) -> Unusable {
        Unusable { why, is_damaged: false }
    }

    fn damaged(what_to_do: String) -> Unusable {
        Unusable { why: format!("the database is damaged; {what_to_do}"), is_damaged: true }
    }
}

/// SQLite gives the files beside it the same permissions.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
