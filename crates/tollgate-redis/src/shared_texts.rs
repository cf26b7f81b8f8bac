//! Texts that all nodes share: the names of banned keys.

use redis::Value;
use tollgate::{SharedText, SharedTexts, StoreError, StoreErrorKind, Time};

use crate::arguments::Arguments;
use crate::client::RedisClient;
use crate::function::ServerFunction;

/// The list of shared texts, each with an expiry time.
#[derive(Debug)]
pub(crate) struct SharedTextList {
    key: Vec<u8>,
}

impl SharedTextList {
    pub(crate) fn new(prefix: &str) -> SharedTextList {
        SharedTextList { key: format!("{prefix}:notes").into_bytes() }
    }

    pub(crate) async fn share_text(
        &self,
        client: &RedisClient,
        text: SharedText<'_>,
    ) -> Result<SharedTexts, StoreError> {
        let (mut keys, mut args) = (Arguments::default(), Arguments::default());
        keys.push(&self.key);
        match text {
            SharedText::Keep { text, until } => {
                args.push(b"keep");
                args.number(until.as_nanos() / 1_000);
                args.push(text);
            }
            SharedText::Drop { texts: [] } => return Ok(SharedTexts::new()),
            SharedText::Drop { texts } => {
                args.push(b"drop");
                texts.iter().for_each(|text| args.push(text));
            }
            SharedText::All => args.push(b"all"),
        }
        let route = client.route(&self.key);
        let answer = client.run(route, ServerFunction::notes(), &keys, &args).await?;
        read(&answer).ok_or_else(|| {
            StoreError::new("the list of bans in Redis is damaged: delete its key")
                .with_kind(StoreErrorKind::Refused)
        })
    }
}

/// Reads texts and their expiry times in microseconds, in turn.
fn read(answer: &Value) -> Option<SharedTexts> {
    let Value::Array(parts) = answer else { return None };
    let note = |pair: &[Value]| match pair {
        [Value::BulkString(text), end] => {
            Some((text.clone().into(), Time::from_nanos(micros(end)?.saturating_mul(1_000))))
        }
        _ => None,
    };
    parts.chunks(2).map(note).collect()
}

/// Reads a score, which is a number or its text, and may be as large as a double.
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
