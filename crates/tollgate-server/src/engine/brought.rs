//! Limits that callers bring along, instead of rules.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tollgate::limit::{InvalidLimit, ParseLimitError};
use tollgate::{Bucket, Check, Engine, Key, Limit};

/// So many texts are remembered. They come from clients: more are read each time.
const REMEMBERED: usize = 4096;
/// What a text may have.
const LONGEST: usize = 256;

/// A limit that callers bring along, and the bucket of its counters: a key is counted apart under
/// every limit it is asked about with.
#[derive(Clone, Debug)]
pub(crate) struct Brought {
    pub(crate) limit: Limit,
    pub(crate) bucket: Bucket,
}

/// Why a text is no limit.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BroughtError {
    /// It cannot be read.
    #[error(transparent)]
    Limit(#[from] ParseLimitError),
    /// Its numbers make no limit.
    #[error("{0}")]
    Invalid(InvalidLimit),
    /// It is too long.
    #[error("a limit has at most {LONGEST} characters, such as 10/s burst 20")]
    Long,
}

impl Brought {
    /// A limit, known by what it says and not by how that was written.
    pub(crate) fn new(limit: Limit) -> Brought {
        let bucket = Bucket::of(&["brought", &limit.to_string()]);
        Brought { limit, bucket }
    }

    /// The check of a key. Limits that callers bring along come and go, so their counters are kept
    /// apart.
    #[inline]
    pub(crate) fn check<'c>(&'c self, key: &'c [u8], cost: u64) -> Check<'c> {
        Check { apart: true, ..Check::new(self.bucket, Key::Bytes(key), &self.limit, cost) }
    }

    /// A new holder, where the limit is on concurrency: its place is free when its lease ends.
    pub(super) fn lease(&self) -> u64 {
        match self.limit.engine() {
            Engine::Concurrent(_) | Engine::Adaptive(_) => fastrand::u64(..) | 1 << 63,
            _ => 0,
        }
    }
}

/// Limits read before, by their text.
#[derive(Debug, Default)]
pub(super) struct Cache(RwLock<HashMap<Box<str>, Arc<Brought>>>);

impl Cache {
    pub(super) fn get(&self, text: &str) -> Result<Arc<Brought>, BroughtError> {
        self.get_or(text, || Ok(text.parse()?))
    }

    /// The same for a text that is no limit of our language, but stands for one.
    pub(super) fn get_or(
        &self,
        text: &str,
        limit: impl FnOnce() -> Result<Limit, BroughtError>,
    ) -> Result<Arc<Brought>, BroughtError> {
        if let Some(known) = self.0.read().get(text) {
            return Ok(known.clone());
        }
        if text.len() > LONGEST {
            return Err(BroughtError::Long);
        }
        let brought = Arc::new(Brought::new(limit()?));
        let mut known = self.0.write();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(text.into(), brought.clone());
        Ok(brought)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_known_by_what_it_says() {
        let cache = Cache::default();
        let same = [cache.get("10/s"), cache.get("10 / s"), cache.get("600/min burst 10")];
        let [one, two, three] = same.map(|brought| brought.unwrap().bucket);
        assert_eq!(one, two);
        assert_ne!(one, three);
    }

    #[test]
    fn callers_cannot_fill_the_memory() {
        let cache = Cache::default();
        for rate in 1..10_000 {
            cache.get(&format!("{rate}/s")).unwrap();
        }
        assert!(cache.0.read().len() <= REMEMBERED);
        assert!(matches!(cache.get(&"9".repeat(300)), Err(BroughtError::Long)));
    }
}
