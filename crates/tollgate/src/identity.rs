//! The numbers of counters, which are the same in every process and every store.
//!
//! A counter is identified by a [`CounterId`] and a key. The id is a hash of names and of the text
//! of the limit. It does not depend on the position of a rule in its file, on the process or on
//! the machine.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::CounterId;

impl CounterId {
    /// Creates the id of a counter from its names, by hashing them.
    ///
    /// The id is the same in every process and on every machine. Different parts, or the same text
    /// divided differently, have different ids.
    ///
    /// ```
    /// use tollgate::CounterId;
    /// let mail = CounterId::from_parts(&["mail", "10/s"]);
    /// assert_eq!(mail, CounterId::from_parts(&["mail", "10/s"]));
    /// assert_ne!(mail, CounterId::from_parts(&["mail1", "0/s"]));
    /// ```
    pub fn from_parts(parts: &[&str]) -> CounterId {
        CounterId::new(stable_hash(parts))
    }
}

/// Returns a hash of texts that is the same in every process, on every machine and in every
/// version.
///
/// The hash is SipHash-1-3 with a key of zero, over the length and the bytes of each part. Counters in
/// shared stores depend on it.
///
/// ```
/// use tollgate::state::stable_hash;
/// assert_eq!(stable_hash(&["mail", "ann"]), stable_hash(&["mail", "ann"]));
/// assert_ne!(stable_hash(&["mail", "ann"]), stable_hash(&["mailann"]));
/// ```
pub fn stable_hash(parts: &[&str]) -> u64 {
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
    fn ids_of_different_parts_differ() {
        assert_eq!(
            CounterId::from_parts(&["shop", "api"]),
            CounterId::from_parts(&["shop", "api"])
        );
        assert_ne!(
            CounterId::from_parts(&["shop", "api"]),
            CounterId::from_parts(&["shopa", "pi"])
        );
        assert_ne!(
            CounterId::from_parts(&["shop", "api"]),
            CounterId::from_parts(&["shop", "api", ""])
        );
    }

    /// Counters in a shared store outlive this build, so their ids must never change.
    #[test]
    fn ids_never_change() {
        assert_eq!(
            CounterId::from_parts(&["shop", "api", "10/s"]).number(),
            2_184_551_255_513_851_327
        );
    }
}
