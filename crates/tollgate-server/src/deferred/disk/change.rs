//! What is written of deferred requests.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::item::{ItemId, NewItem, State, Waiting};
use super::super::queue::{Back, Begun, End, Which};
use super::read;

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) keep_ms: i64,
}

/// How much is kept: what waits, is on its way, or is a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// One change.
#[derive(Debug)]
pub(super) enum Change {
    Add(Box<NewItem>),
    Begin(ItemId, i64),
    Back(ItemId, Back, i64),
    End(ItemId, End, i64),
    Cancel(ItemId, i64),
    Revive(Which, i64),
    Sweep(i64),
}

/// What a change came to.
#[derive(Debug)]
pub(super) enum Changed {
    Added(u64),
    Begun(Box<Begun>),
    Revived(Vec<Waiting>),
    Done,
    /// There is none of which it could be done.
    Nothing,
}

/// Why a change was not made.
#[derive(Debug)]
pub(super) enum Unchanged {
    Full(String),
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for Unchanged {
    fn from(error: rusqlite::Error) -> Unchanged {
        Unchanged::Failed(error)
    }
}

pub(super) fn kept(connection: &Connection) -> rusqlite::Result<Kept> {
    let sql = "SELECT count(*), ifnull(sum(bytes), 0) FROM items \
               WHERE state IN ('queued', 'sending', 'failed')";
    connection.query_row(sql, [], |row| {
        Ok(Kept { count: row.get::<_, i64>(0)? as u64, bytes: row.get::<_, i64>(1)? as u64 })
    })
}

/// Makes a change within a transaction.
pub(super) fn apply(
    connection: &Connection,
    change: &Change,
    bounds: &Bounds,
    kept: &mut Kept,
) -> Result<Changed, Unchanged> {
    Ok(match change {
        Change::Add(item) => Changed::Added(add(connection, item, bounds, kept)?),
        Change::Begin(id, at_ms) => match begin(connection, *id, *at_ms)? {
            Some(begun) => Changed::Begun(Box::new(begun)),
            None => Changed::Nothing,
        },
        Change::Back(id, back, at_ms) => {
            let sql = "UPDATE items SET state = 'queued', due_ms = ?2, why = ?3, \
                       attempts = attempts - ?4, failures = failures + 1, changed_ms = ?5 \
                       WHERE id = ?1 AND state = 'sending'";
            let Back { due_ms, why, is_unsent } = back;
            let values = params![id.to_string(), due_ms, why, i64::from(*is_unsent), at_ms];
            done(connection.prepare_cached(sql)?.execute(values)?)
        }
        Change::End(id, end, at_ms) => finish(connection, *id, end, *at_ms, kept)?,
        Change::Cancel(id, at_ms) => {
            let cancelled = End { state: State::Cancelled, why: None, answer: None };
            match state(connection, *id)? {
                Some(State::Queued | State::Failed) => {
                    finish(connection, *id, &cancelled, *at_ms, kept)?
                }
                _ => Changed::Nothing,
            }
        }
        Change::Revive(which, at_ms) => Changed::Revived(revive(connection, which, *at_ms)?),
        Change::Sweep(now_ms) => {
            sweep(connection, *now_ms, bounds)?;
            Changed::Done
        }
    })
}

fn done(rows: usize) -> Changed {
    if rows > 0 { Changed::Done } else { Changed::Nothing }
}

fn state(connection: &Connection, id: ItemId) -> rusqlite::Result<Option<State>> {
    let mut statement = connection.prepare_cached("SELECT state FROM items WHERE id = ?1")?;
    let state = statement.query_row([id.to_string()], |row| row.get::<_, String>(0)).optional()?;
    Ok(state.and_then(|state| State::parse(&state)))
}

fn add(
    connection: &Connection,
    item: &NewItem,
    bounds: &Bounds,
    kept: &mut Kept,
) -> Result<u64, Unchanged> {
    let head = item.head.text();
    let bytes = (head.len() + item.body.len()) as u64;
    if kept.count >= bounds.count {
        return Err(Unchanged::Full(format!("{} requests are deferred already", kept.count)));
    }
    if kept.bytes + bytes > bounds.bytes {
        return Err(Unchanged::Full("what is deferred takes all the room there is".into()));
    }
    let sql = "INSERT INTO items (id, domain, rule, key, head, bytes, state, added_ms, changed_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'queued', ?7, ?7)";
    let line = &item.line;
    connection.prepare_cached(sql)?.execute(params![
        item.id.to_string(),
        line.domain,
        line.rule,
        line.key,
        head,
        bytes as i64,
        item.added_ms
    ])?;
    let seq = connection.last_insert_rowid();
    let mut bodies = connection.prepare_cached("INSERT INTO bodies (seq, body) VALUES (?1, ?2)")?;
    bodies.execute(params![seq, &item.body[..]])?;
    kept.count += 1;
    kept.bytes += bytes;
    Ok(seq as u64)
}

fn begin(connection: &Connection, id: ItemId, at_ms: i64) -> rusqlite::Result<Option<Begun>> {
    let sql = "UPDATE items SET state = 'sending', attempts = attempts + 1, changed_ms = ?2 \
               WHERE id = ?1 AND state = 'queued' RETURNING seq, attempts, head";
    let mut statement = connection.prepare_cached(sql)?;
    let begun = statement
        .query_row(params![id.to_string(), at_ms], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, read::head(row, 2)?))
        })
        .optional()?;
    let Some((seq, attempt, head)) = begun else { return Ok(None) };
    let mut attempts = connection.prepare_cached("INSERT INTO attempts VALUES (?1, ?2)")?;
    attempts.execute([seq, at_ms])?;
    let mut bodies = connection.prepare_cached("SELECT body FROM bodies WHERE seq = ?1")?;
    let body: Vec<u8> = bodies.query_row([seq], |row| row.get(0))?;
    Ok(Some(Begun { attempt, head, body: body.into() }))
}

fn finish(
    connection: &Connection,
    id: ItemId,
    end: &End,
    at_ms: i64,
    kept: &mut Kept,
) -> rusqlite::Result<Changed> {
    let sql = "UPDATE items SET state = ?2, why = ifnull(?3, why), status = ?4, kind = ?5, \
               answer = ?6, changed_ms = ?7 WHERE id = ?1 RETURNING seq, bytes";
    let answer = end.answer.as_ref();
    let values = params![
        id.to_string(),
        end.state.as_str(),
        end.why,
        answer.map(|answer| answer.status),
        answer.and_then(|answer| answer.kind.as_deref()),
        answer.and_then(|answer| answer.body.as_deref()),
        at_ms
    ];
    let mut statement = connection.prepare_cached(sql)?;
    let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let Some((seq, bytes)) = statement.query_row(values, row).optional()? else {
        return Ok(Changed::Nothing);
    };
    if end.state != State::Failed {
        connection.prepare_cached("DELETE FROM bodies WHERE seq = ?1")?.execute([seq])?;
        kept.count = kept.count.saturating_sub(1);
        kept.bytes = kept.bytes.saturating_sub(bytes as u64);
    }
    Ok(Changed::Done)
}

/// Dead letters begin anew: as old as they are from now on.
fn revive(connection: &Connection, which: &Which, at_ms: i64) -> rusqlite::Result<Vec<Waiting>> {
    let (id, rule) = match which {
        Which::One(id) => (Some(id.to_string()), None),
        Which::All(rule) => (None, rule.as_deref()),
    };
    let sql = format!(
        "UPDATE items SET state = 'queued', attempts = 0, failures = 0, due_ms = 0, \
         added_ms = ?3, changed_ms = ?3, status = NULL, kind = NULL, answer = NULL \
         WHERE state = 'failed' AND (?1 IS NULL OR id = ?1) AND (?2 IS NULL OR rule = ?2) \
         RETURNING {}",
        read::WAITING
    );
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(params![id, rule, at_ms], read::waiting)?.collect()
}

fn sweep(connection: &Connection, now_ms: i64, bounds: &Bounds) -> rusqlite::Result<()> {
    let old_ms = now_ms - bounds.keep_ms;
    connection.execute("DELETE FROM attempts WHERE at_ms < ?1", [old_ms])?;
    let sql = "DELETE FROM items WHERE state IN ('done', 'cancelled') AND (changed_ms < ?1 \
               OR seq IN (SELECT seq FROM items WHERE state IN ('done', 'cancelled') \
               ORDER BY changed_ms DESC LIMIT -1 OFFSET ?2))";
    connection.execute(sql, params![old_ms, bounds.count as i64]).map(drop)
}
