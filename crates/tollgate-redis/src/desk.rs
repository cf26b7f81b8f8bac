//! Deferred requests of a gateway, in the same store as its counters: what may be done with them is
//! in `lua/deferred.lua`, and what it means is up to the server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tollgate::StoreError;

use crate::script::Script;
use crate::strict::Strict;
use crate::words::Words;

/// Bodies are heavier than counters, and nobody waits for a decision.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the deferred requests of one domain are kept.
#[derive(Clone)]
pub struct Desk {
    strict: Arc<Strict>,
    /// What stands between the braces of all keys.
    tag: Vec<u8>,
    key: Vec<u8>,
    guard: Vec<u8>,
}

/// What a call answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeskReply {
    /// There is none.
    Nothing,
    /// A number.
    Number(i64),
    /// A text, or any bytes.
    Bytes(Vec<u8>),
    /// Several.
    List(Vec<DeskReply>),
}

impl Desk {
    pub(crate) fn new(strict: Arc<Strict>, domain: &str) -> Desk {
        // Braces would make another tag.
        let domain = domain.replace(['{', '}'], "_");
        let tag = format!("deferred:{domain}");
        let key = format!("{}:{{{tag}}}", strict.prefix());
        // Neither this key nor the other one ever exists. While a cluster moves their slot it will
        // not work on two keys that are not there, so that nobody sees half of what is kept.
        let guard = format!("{key}:guard").into_bytes();
        Desk { strict, tag: tag.into_bytes(), key: key.into_bytes(), guard }
    }

    /// Does one thing: its name, and what it is about. All of it is done, or nothing is.
    pub async fn call(&self, words: &[&[u8]]) -> Result<DeskReply, StoreError> {
        let (mut keys, mut all) = (Words::default(), Words::default());
        keys.push(&self.key);
        keys.push(&self.guard);
        words.iter().for_each(|word| all.push(word));
        let fleet = self.strict.fleet();
        let place = fleet.place(&self.tag);
        let value = fleet.run_within(PATIENCE, place, Script::deferred(), &keys, &all).await?;
        Ok(DeskReply::of(value))
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("key", &String::from_utf8_lossy(&self.key)).finish()
    }
}

impl DeskReply {
    fn of(value: Value) -> DeskReply {
        match value {
            Value::Int(number) => DeskReply::Number(number),
            Value::BulkString(bytes) => DeskReply::Bytes(bytes),
            Value::SimpleString(text) => DeskReply::Bytes(text.into_bytes()),
            Value::Array(values) => {
                DeskReply::List(values.into_iter().map(DeskReply::of).collect())
            }
            _ => DeskReply::Nothing,
        }
    }
}
