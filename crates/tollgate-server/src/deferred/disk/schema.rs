//! The tables of deferred requests.

use crate::sqlite::Purpose;

/// The database of deferred requests; its number reads "told".
pub(super) const DEFERRED: Purpose =
    Purpose { name: "database of deferred requests", application: 0x746f_6c64, steps: STEPS };

const STEPS: &[&str] = &["
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

-- Apart, so that looking through requests does not read their bodies.
CREATE TABLE bodies (
    seq INTEGER PRIMARY KEY REFERENCES items (seq) ON DELETE CASCADE,
    body BLOB NOT NULL
) STRICT;

-- When what was sent: counters in memory do not outlive the process.
CREATE TABLE attempts (
    seq INTEGER NOT NULL REFERENCES items (seq) ON DELETE CASCADE,
    at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX attempts_by_time ON attempts (at_ms);
CREATE INDEX attempts_by_item ON attempts (seq);
"];
