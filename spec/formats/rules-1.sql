PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
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
INSERT INTO "audit" VALUES(1,1794998797083,'import','rules.import','rules/sample',NULL,1,1,'import','+login +edge domain');
INSERT INTO "audit" VALUES(2,1794998797172,'admin','rules.put','rules/shop',NULL,1,2,'4aa0d26fafa40b9b','+api +inside domain lists');
INSERT INTO "audit" VALUES(3,1794998797211,'admin','rules.put','rules/old',NULL,1,3,'9299bc2fd24fee88','+a domain');
INSERT INTO "audit" VALUES(4,1794998797215,'admin','rules.put','rules/old',1,2,4,'280ee6537c1c68ce','~a');
INSERT INTO "audit" VALUES(5,1794998797221,'admin','rules.remove','rules/old',2,3,5,'8b59413a10b1c269','-a domain');
INSERT INTO "audit" VALUES(6,1794998797234,'admin','rules.remove','rules/sample',1,2,6,'32d65bd822ad15b8','-login -edge domain');
INSERT INTO "audit" VALUES(7,1794998797240,'admin','override.add','overrides/1',NULL,NULL,7,'36f768b18c182e12','{"domain":"shop","match":{"user":"ann"},"rule":"api","limit":["50/min"]}');
INSERT INTO "audit" VALUES(8,1794998797242,'admin','list.set','lists/shop/office',NULL,NULL,8,'82e2c1399f639d3e','2 entries');
INSERT INTO "audit" VALUES(9,1794998797243,'admin','ban.add','bans/1',NULL,NULL,9,'3886cf366ab8ed9d','{"domain":"shop","rule":"api","key":"mallory","reason":"abuse"}');
INSERT INTO "audit" VALUES(10,1794998797246,'admin','mode.set','modes/1',NULL,NULL,10,'e3edc81b9cacb38f','{"domain":"shop","rule":"api","mode":"shadow"}');
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    list INTEGER NOT NULL REFERENCES lists (id) ON DELETE CASCADE,
    entry TEXT NOT NULL,
    UNIQUE (list, entry)
) STRICT;
INSERT INTO "entries" VALUES(1,1,'198.51.100.0/24');
INSERT INTO "entries" VALUES(2,1,'192.0.2.0/24');
CREATE TABLE lists (
    id INTEGER PRIMARY KEY,
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    UNIQUE (domain, name)
) STRICT;
INSERT INTO "lists" VALUES(1,'shop','office',8);
CREATE TABLE overrides (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    what TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL
) STRICT;
INSERT INTO "overrides" VALUES(1,'{"domain":"shop","match":{"user":"ann"},"rule":"api","limit":["50/min"]}',7,1794998797240,'admin');
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO "state" VALUES(1,10);
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
INSERT INTO "versions" VALUES('sample',1,'# The rules of a server that was given none: something to try it with.
# `tollgate init` writes a file to start your own from.
domain: demo

rules:
  # Five attempts a minute and twenty an hour from one address.
  - name: login
    route: POST /login
    per: ip
    limit: [5/min, 20/h sliding]

  # Everything else: ten a second from one address, twenty at once.
  - name: edge
    per: ip
    limit: 10/s burst 20
','a6089fbdf104aab28db2b81fe17c1cafa4d37d514b5bff7fa4801d97cdff6959',1,1794998797082,'import');
INSERT INTO "versions" VALUES('shop',1,'domain: shop
lists: { office: [192.0.2.0/24] }
rules:
  - { name: api, per: user, limit: 5/min }
  - { name: inside, when: ip in lists.office, then: allow }
','b5c408309cfa07f90028a770af86598694a0c5333ed8d35d1d7fb17a66f60319',2,1794998797172,'admin');
INSERT INTO "versions" VALUES('old',1,'domain: old
rules: [{ name: a, limit: 1/s }]
','4b5e54f7a42d1ac06b7c8f7d2f545bb40afa0d283bad67267b9461e5660e8547',3,1794998797210,'admin');
INSERT INTO "versions" VALUES('old',2,'domain: old
rules: [{ name: a, limit: 2/s }]
','9f084257a49d2b9062859b4dc8f0bd3ca85fc233ba0a30205020bba5e76f8cac',4,1794998797215,'admin');
INSERT INTO "versions" VALUES('old',3,NULL,'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',5,1794998797221,'admin');
INSERT INTO "versions" VALUES('sample',2,NULL,'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',6,1794998797234,'admin');
CREATE INDEX audit_by_subject ON audit (subject, id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('audit',10);
INSERT INTO "sqlite_sequence" VALUES('overrides',1);
COMMIT;
PRAGMA application_id = 1953459308;
PRAGMA user_version = 1;
