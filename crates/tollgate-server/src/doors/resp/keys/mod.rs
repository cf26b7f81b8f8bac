//! The keys of script libraries: counters, windows and buckets that clients keep as Redis values.
//!
//! The scripts of these libraries are small programs over Redis values, so their replies can only be
//! equal if the values are. This is that part of Redis and no more: whole numbers, lists of times and
//! one kind of hash, each with an expiry, in the memory of this process.
//!
//! All keys are in one table under one lock, as they are in Redis, so a script is atomic. The number
//! of keys and their bytes are bounded; at the bound the key that expires soonest is dropped.

mod glob;
mod table;
mod value;

use parking_lot::Mutex;
use tollgate::Time;

pub(super) use table::KeySpace;
use table::KeyTable;
pub(super) use value::{KeyError, KeyValue};

use crate::decisions::Database;

/// The keys of all databases.
#[derive(Debug, Default)]
pub(super) struct ScriptKeys(Mutex<KeyTable>);

impl ScriptKeys {
    /// Runs `body` on the keys of a database, while no other client can use any.
    pub(super) fn with<R>(
        &self,
        database: Database,
        now: Time,
        body: impl FnOnce(&mut KeySpace<'_>) -> R,
    ) -> R {
        let mut table = self.0.lock();
        let now_ms = now.as_nanos() / 1_000_000;
        table.drop_expired(now_ms);
        body(&mut KeySpace::new(&mut table, database, now_ms))
    }
}
