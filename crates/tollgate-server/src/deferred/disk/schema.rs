//! The schema of the database of deferred requests.

use crate::sqlite::DatabaseSchema;

/// The schema of the database; the application id is "told" in ASCII.
pub(super) const DEFERRED: DatabaseSchema = DatabaseSchema {
    name: "database of deferred requests",
    application_id: 0x746f_6c64,
    migrations: MIGRATIONS,
};

const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE items (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    domain TEXT NOT NULL,
    rule TEXT NOT NULL,
    key TEXT NOT NULL,
    head TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    due_ms INTEGER NOT NULL DEFAULT 0,
    added_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    why TEXT,
    status INTEGER,
    kind TEXT,
    answer BLOB
) STRICT;
CREATE INDEX items_by_state ON items (state, changed_ms);

-- Bodies have their own table, so that listing requests does not read them.
CREATE TABLE bodies (
    seq INTEGER PRIMARY KEY REFERENCES items (seq) ON DELETE CASCADE,
    body BLOB NOT NULL
) STRICT;

-- The times of attempts, because counters in memory do not outlive the process.
CREATE TABLE attempts (
    seq INTEGER NOT NULL REFERENCES items (seq) ON DELETE CASCADE,
    at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX attempts_by_time ON attempts (at_ms);
CREATE INDEX attempts_by_item ON attempts (seq);
",
    "
-- Counts the requests of one key, of which each may store a share.
CREATE INDEX items_by_key ON items (domain, rule, key, state, bytes);
",
];
