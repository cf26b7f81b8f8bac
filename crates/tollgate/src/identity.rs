//! Which counter is meant: the same answer in every process and every store.
//!
//! A counter is a bucket and a key in it. The bucket's number is a hash of the domain, the bucket's
//! name and the limit; the key is the text that `key.rs` writes. Neither depends on the position
//! of a rule in its file, on this process or on this machine.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::Bucket;

impl Bucket {
    /// The bucket of these parts, the same in every process and on every machine; other parts, or the
    /// same ones cut differently, are another bucket.
    ///
    /// ```
    /// use tollgate::Bucket;
    /// assert_eq!(Bucket::of(&["mail", "10/s"]), Bucket::of(&["mail", "10/s"]));
    /// assert_ne!(Bucket::of(&["mail", "10/s"]), Bucket::of(&["mail1", "0/s"]));
    /// ```
    pub fn of(parts: &[&str]) -> Bucket {
        Bucket::new(stable_hash(parts))
    }
}

/// A hash that will be the same tomorrow and elsewhere.
pub(crate) fn stable_hash(parts: &[&str]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write_u64(part.len() as u64);
        hasher.write(part.as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_told_apart_by_their_parts() {
        assert_eq!(Bucket::of(&["shop", "api"]), Bucket::of(&["shop", "api"]));
        assert_ne!(Bucket::of(&["shop", "api"]), Bucket::of(&["shopa", "pi"]));
        assert_ne!(Bucket::of(&["shop", "api"]), Bucket::of(&["shop", "api", ""]));
    }

    /// Counters in a shared store outlive this build: the numbers must never change.
    #[test]
    fn numbers_are_for_ever() {
        assert_eq!(Bucket::of(&["shop", "api", "10/s"]).number(), 2_184_551_255_513_851_327);
    }
}
