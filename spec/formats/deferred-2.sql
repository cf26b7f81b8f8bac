PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE TABLE attempts (
    seq INTEGER NOT NULL REFERENCES items (seq) ON DELETE CASCADE,
    at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE bodies (
    seq INTEGER PRIMARY KEY REFERENCES items (seq) ON DELETE CASCADE,
    body BLOB NOT NULL
) STRICT;
INSERT INTO "bodies" VALUES(1,X'61207265706F7274');
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
INSERT INTO "items" VALUES(1,'aff58bc1099d9e95ea68f4d9802ed2ca','default','report','acme','{"method":"POST","target":"/report","headers":[["accept-encoding","identity"],["content-length","8"],["host","127.0.0.1:40249"],["user-agent","Python-urllib/3.11"],["x-org","acme"],["content-type","text/plain"],["connection","close"]],"peer":"127.0.0.1","is_secret":false,"said":{"values":[],"is_unknown":false}}',320,'queued',0,0,0,1794998798825,1794998798825,NULL,NULL,NULL,NULL);
CREATE INDEX items_by_state ON items (state, changed_ms);
CREATE INDEX attempts_by_time ON attempts (at_ms);
CREATE INDEX attempts_by_item ON attempts (seq);
CREATE INDEX items_by_key ON items (domain, rule, key, state, bytes);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('items',1);
COMMIT;
PRAGMA application_id = 1953459300;
PRAGMA user_version = 2;
