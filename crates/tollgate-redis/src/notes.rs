//! Texts that all nodes can read: which keys are banned, by their names.

use redis::Value;
use tollgate::{Note, Notes, StoreError, StoreErrorKind, Time};

use crate::fleet::Fleet;
use crate::script::Script;
use crate::words::Words;

/// Where the texts are.
#[derive(Debug)]
pub(crate) struct Board {
    key: Vec<u8>,
}

impl Board {
    pub(crate) fn new(prefix: &str) -> Board {
        Board { key: format!("{prefix}:notes").into_bytes() }
    }

    pub(crate) async fn note(&self, fleet: &Fleet, note: Note<'_>) -> Result<Notes, StoreError> {
        let (mut keys, mut words) = (Words::default(), Words::default());
        keys.push(&self.key);
        match note {
            Note::Keep { text, until } => {
                words.push(b"keep");
                words.number(until.as_nanos() / 1_000);
                words.push(text);
            }
            Note::Drop { texts: [] } => return Ok(Notes::new()),
            Note::Drop { texts } => {
                words.push(b"drop");
                texts.iter().for_each(|text| words.push(text));
            }
            Note::All => words.push(b"all"),
        }
        let place = fleet.place(&self.key);
        let answer = fleet.run(place, Script::notes(), &keys, &words).await?;
        read(&answer).ok_or_else(|| {
            StoreError::new("the list of bans in redis is not what tollgate wrote: remove its key")
                .of(StoreErrorKind::Refused)
        })
    }
}

/// Texts and their ends in microseconds, one after the other.
fn read(answer: &Value) -> Option<Notes> {
    let Value::Array(parts) = answer else { return None };
    let note = |pair: &[Value]| match pair {
        [Value::BulkString(text), end] => {
            Some((text.clone().into(), Time::from_nanos(micros(end)?.saturating_mul(1_000))))
        }
        _ => None,
    };
    parts.chunks(2).map(note).collect()
}

/// A score, which is a number or the text of one, and may be as large as a double.
fn micros(score: &Value) -> Option<u64> {
    match score {
        Value::BulkString(text) => {
            std::str::from_utf8(text).ok()?.parse::<f64>().ok().map(|score| score as u64)
        }
        Value::Double(score) => Some(*score as u64),
        Value::Int(score) => u64::try_from(*score).ok(),
        _ => None,
    }
}
