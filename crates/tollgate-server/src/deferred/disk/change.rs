//! Changes of the deferred queue on disk.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::item::{ItemId, ItemState, NewItem, QueuedItem};
use super::super::queue::{Completion, Requeue, ReviveSelection, StartedAttempt, report_expired};
use super::super::queue_key::DeferredQueueKey;
use super::read;
use crate::capacity_share::{CapacityExceeded, CapacityShare, CapacityUsage};

/// The bounds of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueBounds {
    /// The maximum of queued requests, requests in flight and dead letters, and the share of a key.
    pub(super) capacity: CapacityShare,
    pub(super) keep_ms: i64,
    pub(super) keep_dead_ms: i64,
}

/// A change of the queue.
#[derive(Debug)]
pub(super) enum QueueChange {
    Add(Box<NewItem>),
    Begin(ItemId, i64),
    Requeue(ItemId, Requeue, i64),
    Complete(ItemId, Completion, i64),
    Cancel(ItemId, i64),
    Revive(ReviveSelection, i64),
    Sweep(i64),
}

/// The outcome of a change.
#[derive(Debug)]
pub(super) enum ChangeOutcome {
    Added(u64),
    StartedAttempt(Box<StartedAttempt>),
    Revived(Vec<QueuedItem>),
    Done,
    /// No request is in a state that allows the change.
    Nothing,
}

/// An error of a change.
#[derive(Debug)]
pub(super) enum ChangeError {
    Full(String),
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for ChangeError {
    fn from(error: rusqlite::Error) -> ChangeError {
        ChangeError::Failed(error)
    }
}

/// Counts the requests that the bounds apply to.
pub(super) fn usage(connection: &Connection) -> rusqlite::Result<CapacityUsage> {
    let sql = "SELECT count(*), ifnull(sum(bytes), 0) FROM items \
               WHERE state IN ('queued', 'sending', 'failed')";
    connection.query_row(sql, [], usage_row)
}

/// Counts the requests of one queue that the bounds apply to.
fn key_usage(
    connection: &Connection,
    queue_key: &DeferredQueueKey,
) -> rusqlite::Result<CapacityUsage> {
    let sql = "SELECT count(*), ifnull(sum(bytes), 0) FROM items \
               WHERE domain = ?1 AND rule = ?2 AND key = ?3 \
               AND state IN ('queued', 'sending', 'failed')";
    let DeferredQueueKey { domain, rule, key } = queue_key;
    connection.prepare_cached(sql)?.query_row([domain, rule, key], usage_row)
}

fn usage_row(row: &Row<'_>) -> rusqlite::Result<CapacityUsage> {
    Ok(CapacityUsage { count: row.get::<_, i64>(0)? as u64, bytes: row.get::<_, i64>(1)? as u64 })
}

/// Makes a change within a transaction.
pub(super) fn apply(
    connection: &Connection,
    change: &QueueChange,
    bounds: &QueueBounds,
    usage: &mut CapacityUsage,
) -> Result<ChangeOutcome, ChangeError> {
    Ok(match change {
        QueueChange::Add(item) => ChangeOutcome::Added(add(connection, item, bounds, usage)?),
        QueueChange::Begin(id, at_ms) => match begin(connection, *id, *at_ms)? {
            Some(started) => ChangeOutcome::StartedAttempt(Box::new(started)),
            None => ChangeOutcome::Nothing,
        },
        QueueChange::Requeue(id, requeue, at_ms) => {
            let sql = "UPDATE items SET state = 'queued', due_ms = ?2, why = ?3, \
                       attempts = attempts - ?4, failures = failures + 1, changed_ms = ?5 \
                       WHERE id = ?1 AND state = 'sending'";
            let Requeue { due_ms, reason, is_unsent } = requeue;
            let values = params![id.to_string(), due_ms, reason, i64::from(*is_unsent), at_ms];
            done(connection.prepare_cached(sql)?.execute(values)?)
        }
        QueueChange::Complete(id, completion, at_ms) => {
            finish(connection, *id, completion, *at_ms, usage)?
        }
        QueueChange::Cancel(id, at_ms) => {
            let cancelled =
                Completion { state: ItemState::Cancelled, reason: None, response: None };
            match state(connection, *id)? {
                Some(ItemState::Queued | ItemState::Failed) => {
                    finish(connection, *id, &cancelled, *at_ms, usage)?
                }
                _ => ChangeOutcome::Nothing,
            }
        }
        QueueChange::Revive(selection, at_ms) => {
            ChangeOutcome::Revived(revive(connection, selection, *at_ms)?)
        }
        QueueChange::Sweep(now_ms) => {
            sweep(connection, *now_ms, bounds, usage)?;
            ChangeOutcome::Done
        }
    })
}

fn done(rows: usize) -> ChangeOutcome {
    if rows > 0 { ChangeOutcome::Done } else { ChangeOutcome::Nothing }
}

fn state(connection: &Connection, id: ItemId) -> rusqlite::Result<Option<ItemState>> {
    let mut statement = connection.prepare_cached("SELECT state FROM items WHERE id = ?1")?;
    let state = statement.query_row([id.to_string()], |row| row.get::<_, String>(0)).optional()?;
    Ok(state.and_then(|state| ItemState::parse(&state)))
}

fn add(
    connection: &Connection,
    item: &NewItem,
    bounds: &QueueBounds,
    usage: &mut CapacityUsage,
) -> Result<u64, ChangeError> {
    let head = item.head.text();
    let bytes = (head.len() + item.body.len()) as u64;
    let own = key_usage(connection, &item.queue_key)?;
    bounds.capacity.check(*usage, own, bytes).map_err(|exceeded| match exceeded {
        CapacityExceeded::Total if usage.count >= bounds.capacity.capacity.count => {
            ChangeError::Full(format!("{} requests are deferred already", usage.count))
        }
        CapacityExceeded::Total => {
            ChangeError::Full("the deferred requests take up all the space allowed".into())
        }
        CapacityExceeded::Share(CapacityUsage { count, bytes }) => ChangeError::Full(format!(
            "the requests of its key take up their share of the queue, {count} requests and {bytes} \
             bytes"
        )),
    })?;
    let sql = "INSERT INTO items (id, domain, rule, key, head, bytes, state, added_ms, changed_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'queued', ?7, ?7)";
    let queue_key = &item.queue_key;
    connection.prepare_cached(sql)?.execute(params![
        item.id.to_string(),
        queue_key.domain,
        queue_key.rule,
        queue_key.key,
        head,
        bytes as i64,
        item.added_ms
    ])?;
    let seq = connection.last_insert_rowid();
    let mut bodies = connection.prepare_cached("INSERT INTO bodies (seq, body) VALUES (?1, ?2)")?;
    bodies.execute(params![seq, &item.body[..]])?;
    usage.add(bytes);
    Ok(seq as u64)
}

fn begin(
    connection: &Connection,
    id: ItemId,
    at_ms: i64,
) -> rusqlite::Result<Option<StartedAttempt>> {
    let sql = "UPDATE items SET state = 'sending', attempts = attempts + 1, changed_ms = ?2 \
               WHERE id = ?1 AND state = 'queued' RETURNING seq, attempts, head";
    let mut statement = connection.prepare_cached(sql)?;
    let started = statement
        .query_row(params![id.to_string(), at_ms], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, read::head(row, 2)?))
        })
        .optional()?;
    let Some((seq, attempt, head)) = started else { return Ok(None) };
    let mut attempts = connection.prepare_cached("INSERT INTO attempts VALUES (?1, ?2)")?;
    attempts.execute([seq, at_ms])?;
    let mut bodies = connection.prepare_cached("SELECT body FROM bodies WHERE seq = ?1")?;
    let body: Vec<u8> = bodies.query_row([seq], |row| row.get(0))?;
    Ok(Some(StartedAttempt { attempt, head, body: body.into() }))
}

fn finish(
    connection: &Connection,
    id: ItemId,
    completion: &Completion,
    at_ms: i64,
    usage: &mut CapacityUsage,
) -> rusqlite::Result<ChangeOutcome> {
    let sql = "UPDATE items SET state = ?2, why = ifnull(?3, why), status = ?4, kind = ?5, \
               answer = ?6, changed_ms = ?7 WHERE id = ?1 RETURNING seq, bytes";
    let response = completion.response.as_ref();
    let values = params![
        id.to_string(),
        completion.state.as_str(),
        completion.reason,
        response.map(|response| response.status),
        response.and_then(|response| response.content_type.as_deref()),
        response.and_then(|response| response.body.as_deref()),
        at_ms
    ];
    let mut statement = connection.prepare_cached(sql)?;
    let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let Some((seq, bytes)) = statement.query_row(values, row).optional()? else {
        return Ok(ChangeOutcome::Nothing);
    };
    if completion.state != ItemState::Failed {
        connection.prepare_cached("DELETE FROM bodies WHERE seq = ?1")?.execute([seq])?;
        usage.remove(bytes as u64);
    }
    Ok(ChangeOutcome::Done)
}

/// Queues dead letters again, with their age counted from now.
fn revive(
    connection: &Connection,
    selection: &ReviveSelection,
    at_ms: i64,
) -> rusqlite::Result<Vec<QueuedItem>> {
    let (id, rule) = match selection {
        ReviveSelection::One(id) => (Some(id.to_string()), None),
        ReviveSelection::All(rule) => (None, rule.as_deref()),
    };
    let sql = format!(
        "UPDATE items SET state = 'queued', attempts = 0, failures = 0, due_ms = 0, \
         added_ms = ?3, changed_ms = ?3, status = NULL, kind = NULL, answer = NULL \
         WHERE state = 'failed' AND (?1 IS NULL OR id = ?1) AND (?2 IS NULL OR rule = ?2) \
         RETURNING {}",
        read::QUEUED_COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(params![id, rule, at_ms], read::queued_item)?.collect()
}

/// Removes finished requests and dead letters that are too old.
pub(super) fn sweep(
    connection: &Connection,
    now_ms: i64,
    bounds: &QueueBounds,
    usage: &mut CapacityUsage,
) -> rusqlite::Result<()> {
    let old_ms = now_ms.saturating_sub(bounds.keep_ms);
    connection.execute("DELETE FROM attempts WHERE at_ms < ?1", [old_ms])?;
    let sql = "DELETE FROM items WHERE state IN ('done', 'cancelled') AND (changed_ms < ?1 \
               OR seq IN (SELECT seq FROM items WHERE state IN ('done', 'cancelled') \
               ORDER BY changed_ms DESC LIMIT -1 OFFSET ?2))";
    let most = bounds.capacity.capacity.count as i64;
    connection.execute(sql, params![old_ms, most])?;
    let sql = "DELETE FROM items WHERE state = 'failed' AND changed_ms <= ?1 RETURNING bytes";
    let mut statement = connection.prepare_cached(sql)?;
    let expired = statement
        .query_map([now_ms.saturating_sub(bounds.keep_dead_ms)], |row| row.get::<_, i64>(0))?;
    let mut count = 0_u64;
    for bytes in expired {
        usage.remove(bytes? as u64);
        count += 1;
    }
    report_expired(count);
    Ok(())
}
