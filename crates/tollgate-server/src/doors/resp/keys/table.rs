//! The table of keys with their expiry, and the operations of Redis on the keys of one database.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use super::glob;
use super::value::{KeyError, KeyValue};
use crate::decisions::Database;

/// The maximum number of keys.
const MAX_KEYS: usize = 1 << 20;
/// The maximum memory of all keys, in bytes.
const MAX_BYTES: usize = 256 << 20;
/// The approximate memory of an entry beside its key and value: three table slots and an allocation.
const ENTRY_BYTES: usize = 256;
/// The number of expired keys that one command removes, so that none takes long.
const MAX_SWEPT: usize = 16;
/// The expiry of a key that does not expire.
const NEVER: u64 = u64::MAX;

/// The keys of all databases: the first byte of a key is its database.
#[derive(Debug)]
pub(super) struct KeyTable {
    entries: HashMap<Arc<[u8]>, KeyEntry>,
    /// The keys by their expiry and number.
    by_expiry: BTreeMap<(u64, u64), Arc<[u8]>>,
    bytes: usize,
    next_number: u64,
    max_keys: usize,
    max_bytes: usize,
}

impl Default for KeyTable {
    fn default() -> KeyTable {
        KeyTable {
            entries: HashMap::new(),
            by_expiry: BTreeMap::new(),
            bytes: 0,
            next_number: 0,
            max_keys: MAX_KEYS,
            max_bytes: MAX_BYTES,
        }
    }
}

#[derive(Debug)]
struct KeyEntry {
    value: KeyValue,
    /// The last millisecond in which the key exists.
    expires_ms: u64,
    /// Tells keys of the same expiry apart.
    number: u64,
    bytes: usize,
}

impl KeyTable {
    /// Removes some of the keys that have expired.
    pub(super) fn drop_expired(&mut self, now_ms: u64) {
        for _ in 0..MAX_SWEPT {
            let Some((expiry, key)) = self.by_expiry.first_key_value() else { return };
            if expiry.0 >= now_ms {
                return;
            }
            let key = key.clone();
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<KeyEntry> {
        let entry = self.entries.remove(key)?;
        self.by_expiry.remove(&(entry.expires_ms, entry.number));
        self.bytes -= entry.bytes;
        Some(entry)
    }

    fn insert(&mut self, key: &[u8], value: KeyValue, expires_ms: u64) {
        self.remove(key);
        let bytes = ENTRY_BYTES + key.len() + value.heap_bytes();
        while self.entries.len() >= self.max_keys || self.bytes + bytes > self.max_bytes {
            let Some((_, soonest)) = self.by_expiry.pop_first() else { break };
            if let Some(entry) = self.entries.remove(&soonest) {
                self.bytes -= entry.bytes;
            }
        }
        let (key, number) = (Arc::<[u8]>::from(key), self.next_number);
        self.next_number += 1;
        self.bytes += bytes;
        self.by_expiry.insert((expires_ms, number), key.clone());
        self.entries.insert(key, KeyEntry { value, expires_ms, number, bytes });
    }

    fn set_expiry(&mut self, key: &[u8], expires_ms: u64) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some(key) = self.by_expiry.remove(&(entry.expires_ms, entry.number)) {
            entry.expires_ms = expires_ms;
            self.by_expiry.insert((expires_ms, entry.number), key);
        }
    }
}

/// The keys of one database at one time.
#[derive(Debug)]
pub(in crate::doors::resp) struct KeySpace<'t> {
    table: &'t mut KeyTable,
    database: Database,
    now_ms: u64,
}

/// A key with its database in front.
type FullKey = SmallVec<[u8; 64]>;

impl<'t> KeySpace<'t> {
    pub(super) fn new(table: &'t mut KeyTable, database: Database, now_ms: u64) -> KeySpace<'t> {
        KeySpace { table, database, now_ms }
    }

    fn full_key(&self, key: &[u8]) -> FullKey {
        let mut full = FullKey::with_capacity(key.len() + 1);
        full.push(self.database.number());
        full.extend_from_slice(key);
        full
    }

    /// Returns the full key if the key exists; an expired key is removed.
    fn find(&mut self, key: &[u8]) -> Option<FullKey> {
        let key = self.full_key(key);
        let expires_ms = self.table.entries.get(&*key)?.expires_ms;
        if expires_ms < self.now_ms {
            self.table.remove(&key);
            return None;
        }
        Some(key)
    }

    /// Returns the value of a key.
    pub(in crate::doors::resp) fn value(&mut self, key: &[u8]) -> Option<&KeyValue> {
        let key = self.find(key)?;
        self.table.entries.get(&*key).map(|entry| &entry.value)
    }

    /// Returns the number that `GET` returns as a text.
    pub(in crate::doors::resp) fn number(&mut self, key: &[u8]) -> Result<Option<f64>, KeyError> {
        self.value(key).map(KeyValue::number).transpose()
    }

    /// Returns the text that `GET` returns.
    pub(in crate::doors::resp) fn text(&mut self, key: &[u8]) -> Result<Option<String>, KeyError> {
        self.value(key).map(KeyValue::text).transpose()
    }

    pub(in crate::doors::resp) fn exists(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// Sets a key, for a time in milliseconds or for good.
    pub(in crate::doors::resp) fn set(&mut self, key: &[u8], value: KeyValue, ttl_ms: Option<u64>) {
        let expires_ms = ttl_ms.map_or(NEVER, |ttl_ms| self.now_ms.saturating_add(ttl_ms));
        let key = self.full_key(key);
        self.table.insert(&key, value, expires_ms);
    }

    /// Replaces the value of a key, whose expiry stays.
    pub(in crate::doors::resp) fn replace(&mut self, key: &[u8], value: KeyValue) {
        let expires_ms = self.find(key).and_then(|key| self.table.entries.get(&*key));
        let expires_ms = expires_ms.map_or(NEVER, |entry| entry.expires_ms);
        let key = self.full_key(key);
        self.table.insert(&key, value, expires_ms);
    }

    /// Adds to the whole number of a key, which is 0 if there is none; returns the sum.
    pub(in crate::doors::resp) fn increment(
        &mut self,
        key: &[u8],
        by: i64,
    ) -> Result<i64, KeyError> {
        let Some(full) = self.find(key) else {
            self.set(key, KeyValue::Integer(by), None);
            return Ok(by);
        };
        match self.table.entries.get_mut(&*full).map(|entry| &mut entry.value) {
            Some(KeyValue::Integer(value)) => {
                *value = value.checked_add(by).ok_or(KeyError::Overflow)?;
                Ok(*value)
            }
            Some(KeyValue::Number(_)) => Err(KeyError::NotAnInteger),
            _ => Err(KeyError::WrongType),
        }
    }

    /// Returns the milliseconds until a key expires: -1 if it does not, -2 if there is none.
    pub(in crate::doors::resp) fn ttl_ms(&mut self, key: &[u8]) -> i64 {
        let now_ms = self.now_ms;
        match self.find(key).and_then(|key| self.table.entries.get(&*key)) {
            None => -2,
            Some(KeyEntry { expires_ms: NEVER, .. }) => -1,
            Some(entry) => i64::try_from(entry.expires_ms - now_ms).unwrap_or(i64::MAX),
        }
    }

    /// Sets the time until a key expires; none or a negative one removes it. Returns whether the
    /// key existed.
    pub(in crate::doors::resp) fn expire(&mut self, key: &[u8], ttl_ms: i64) -> bool {
        let Some(key) = self.find(key) else { return false };
        match u64::try_from(ttl_ms) {
            Ok(ttl_ms @ 1..) => {
                self.table.set_expiry(&key, self.now_ms.saturating_add(ttl_ms).min(NEVER - 1));
            }
            _ => drop(self.table.remove(&key)),
        }
        true
    }

    /// Removes a key; returns whether it existed.
    pub(in crate::doors::resp) fn remove(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some_and(|key| self.table.remove(&key).is_some())
    }

    /// Removes a key and returns its value, to be set again.
    pub(in crate::doors::resp) fn take(&mut self, key: &[u8]) -> Option<KeyValue> {
        let key = self.find(key)?;
        self.table.remove(&key).map(|entry| entry.value)
    }

    /// Renames a key, which keeps its expiry and replaces the one of the new name.
    pub(in crate::doors::resp) fn rename(
        &mut self,
        from: &[u8],
        to: &[u8],
    ) -> Result<(), KeyError> {
        let entry = self.find(from).and_then(|key| self.table.remove(&key));
        let KeyEntry { value, expires_ms, .. } = entry.ok_or(KeyError::NoKey)?;
        let to = self.full_key(to);
        self.table.insert(&to, value, expires_ms);
        Ok(())
    }

    /// Removes the keys that match a pattern of `KEYS`; returns their number.
    pub(in crate::doors::resp) fn remove_matching(&mut self, pattern: &[u8]) -> usize {
        let (database, now_ms) = (self.database.number(), self.now_ms);
        let is_match = |(key, entry): &(&Arc<[u8]>, &KeyEntry)| {
            key[0] == database && entry.expires_ms >= now_ms && glob::matches(pattern, &key[1..])
        };
        let keys: Vec<_> =
            self.table.entries.iter().filter(is_match).map(|(key, _)| key.clone()).collect();
        keys.iter().filter(|key| self.table.remove(key).is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(table: &mut KeyTable, now_ms: u64) -> KeySpace<'_> {
        KeySpace::new(table, Database::default(), now_ms)
    }

    #[test]
    fn keys_expire_after_their_last_millisecond() {
        let mut table = KeyTable::default();
        space(&mut table, 1_000).set(b"a", KeyValue::Integer(1), Some(50));
        assert_eq!(space(&mut table, 1_050).ttl_ms(b"a"), 0);
        assert_eq!(space(&mut table, 1_051).ttl_ms(b"a"), -2);
        assert!(table.entries.is_empty() && table.bytes == 0 && table.by_expiry.is_empty());
    }

    #[test]
    fn an_increment_keeps_the_expiry() {
        let mut table = KeyTable::default();
        let mut keys = space(&mut table, 0);
        assert_eq!(keys.increment(b"a", 2), Ok(2));
        assert_eq!(keys.ttl_ms(b"a"), -1);
        assert!(keys.expire(b"a", 9));
        assert_eq!(keys.increment(b"a", i64::MAX), Err(KeyError::Overflow));
        assert_eq!(keys.increment(b"a", -3), Ok(-1));
        assert_eq!(keys.ttl_ms(b"a"), 9);
        assert!(keys.expire(b"a", -9) && !keys.exists(b"a"));
    }

    #[test]
    fn databases_are_separate() {
        let mut table = KeyTable::default();
        let other = Database::new(3).unwrap();
        space(&mut table, 0).set(b"a", KeyValue::Integer(1), None);
        assert!(!KeySpace::new(&mut table, other, 0).exists(b"a"));
        KeySpace::new(&mut table, other, 0).set(b"a", KeyValue::Integer(2), None);
        assert_eq!(space(&mut table, 0).remove_matching(b"*"), 1);
        assert_eq!(KeySpace::new(&mut table, other, 0).text(b"a"), Ok(Some("2".into())));
    }

    #[test]
    fn the_key_that_expires_soonest_makes_room() {
        for (max_keys, max_bytes) in [(50, MAX_BYTES), (MAX_KEYS, 50 * (ENTRY_BYTES + 9))] {
            let mut table = KeyTable { max_keys, max_bytes, ..KeyTable::default() };
            for number in 0..60_u64 {
                let ttl_ms = 1_000 - number;
                space(&mut table, 0).set(&number.to_be_bytes(), KeyValue::Integer(1), Some(ttl_ms));
            }
            assert_eq!((table.entries.len(), table.by_expiry.len()), (50, 50));
            assert!(table.bytes <= max_bytes);
            // Each new key expires before the others, so it replaces the one before it.
            assert!(space(&mut table, 0).exists(&0_u64.to_be_bytes()));
            assert!(space(&mut table, 0).exists(&59_u64.to_be_bytes()));
            assert!(!space(&mut table, 0).exists(&58_u64.to_be_bytes()));
        }
    }

    #[test]
    fn expired_keys_are_swept() {
        let mut table = KeyTable::default();
        for number in 0..100_u64 {
            space(&mut table, 0).set(&number.to_be_bytes(), KeyValue::Integer(1), Some(5));
        }
        for _ in 0..7 {
            table.drop_expired(10);
        }
        assert!(table.entries.is_empty() && table.bytes == 0);
    }
}
