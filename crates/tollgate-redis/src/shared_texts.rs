//! Texts that all nodes share: the names of banned keys.

use redis::Value;
use tollgate::{Clock, SharedText, SharedTexts, Span, StoreError, StoreErrorKind, Time};

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
        clock: &Clock,
        text: SharedText<'_>,
    ) -> Result<SharedTexts, StoreError> {
        let date = clock.date(clock.now());
        let (mut keys, mut args) = (Arguments::default(), Arguments::default());
        keys.push(&self.key);
        match text {
            SharedText::Keep { text, until } => {
                args.push(b"keep");
                // The wall clocks of this machine and of the server may differ.
                args.number(until.since(date).as_nanos() / 1_000);
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
        read(&answer, date).ok_or_else(|| {
            StoreError::new("the list of bans in Redis is damaged: delete its key")
                .with_kind(StoreErrorKind::Refused)
        })
    }
}

/// Reads texts and how many microseconds are left to them at `date`, in turn.
pub(crate) fn read(answer: &Value, date: Time) -> Option<SharedTexts> {
    let Value::Array(parts) = answer else { return None };
    let note = |pair: &[Value]| match pair {
        [Value::BulkString(text), end] => {
            Some((text.clone().into(), date + Span::from_micros(micros(end)?)))
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
