//! The table of the audit log.

use rusqlite::{Connection, Row, params};
use serde::Serialize;

use super::super::change::{AuditRecord, Author};
use crate::clock;

/// The maximum number of rows; the oldest are removed.
const MAX_ROWS: i64 = 100_000;

/// The maximum number of characters of the detail.
const MAX_DETAIL: usize = 2000;

/// A row of the audit log.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct AuditRow {
    pub(in super::super) id: u64,
    at: String,
    who: String,
    action: String,
    subject: String,
    from_version: Option<u64>,
    to_version: Option<u64>,
    revision: u64,
    request_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

pub(in super::super) fn add(
    connection: &Connection,
    record: &AuditRecord,
    author: &Author,
    revision: u64,
) -> rusqlite::Result<()> {
    let detail: String = record.detail.chars().take(MAX_DETAIL).collect();
    connection.execute(
        "INSERT INTO audit (at_ms, who, action, subject, from_version, to_version, revision,
                            request_id, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            clock::unix_ms(),
            author.who,
            record.action,
            record.subject,
            record.from.map(|version| version as i64),
            record.to.map(|version| version as i64),
            revision as i64,
            author.request_id,
            detail,
        ],
    )?;
    let last = connection.last_insert_rowid();
    connection.execute("DELETE FROM audit WHERE id <= ?1", [last - MAX_ROWS]).map(drop)
}

/// Returns a page of the audit log, newest first: rows before an id, about a subject.
pub(in super::super) fn page(
    connection: &Connection,
    before: Option<u64>,
    subject: Option<&str>,
    limit: u64,
) -> rusqlite::Result<Vec<AuditRow>> {
    let sql = "SELECT id, strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000.0, 'unixepoch'), who, action,
                      subject, from_version, to_version, revision, request_id, detail
               FROM audit
               WHERE (?1 IS NULL OR id < ?1) AND (?2 IS NULL OR subject = ?2)
               ORDER BY id DESC LIMIT ?3";
    let before = before.map(|id| i64::try_from(id).unwrap_or(i64::MAX));
    let values = params![before, subject, limit as i64];
    connection.prepare_cached(sql)?.query_map(values, audit_row)?.collect()
}

fn audit_row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    let number = |column| row.get::<_, Option<i64>>(column).map(|n| n.map(|n| n as u64));
    Ok(AuditRow {
        id: row.get::<_, i64>(0)? as u64,
        at: row.get(1)?,
        who: row.get(2)?,
        action: row.get(3)?,
        subject: row.get(4)?,
        from_version: number(5)?,
        to_version: number(6)?,
        revision: row.get::<_, i64>(7)? as u64,
        request_id: row.get(8)?,
        detail: row.get(9)?,
    })
}
