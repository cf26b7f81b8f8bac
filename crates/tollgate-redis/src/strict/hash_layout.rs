//! The counters of a call, as Redis keys and hash fields.
//!
//! The counters of one key are the fields of one hash, so that any number of limits on it costs one
//! read and one write.

use std::io::Write;

use smallvec::SmallVec;
use tollgate::state::previous_limits;
use tollgate::{Check, CounterId};

use super::redis_key;
use crate::arguments::Arguments;

/// A field of a hash: one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HashField {
    /// The index of its check.
    pub(super) check: usize,
    /// The number of limits between this one and the check's own, which is 0.
    pub(super) ago: usize,
    pub(super) counter: CounterId,
}

/// The hashes of a call, each with its fields.
#[derive(Debug)]
pub(super) struct HashLayout {
    pub(super) keys: Arguments,
    /// The fields of each hash, in the order of the reply.
    pub(super) hashes: SmallVec<[SmallVec<[HashField; 4]>; 2]>,
}

impl HashLayout {
    /// Creates the layout of some checks, including the counters of their previous limits if
    /// `with_previous` is set.
    pub(super) fn new(prefix: &str, checks: &[Check<'_>], with_previous: bool) -> HashLayout {
        let mut layout = HashLayout { keys: Arguments::default(), hashes: SmallVec::new() };
        let mut firsts: SmallVec<[usize; 2]> = SmallVec::new();
        for (i, check) in checks.iter().enumerate() {
            let same = |first: &usize| {
                checks[*first].key == check.key && !check.apart && !checks[*first].apart
            };
            let hash = match firsts.iter().position(same) {
                Some(hash) => hash,
                None => {
                    let apart = check.apart.then_some(check.counter);
                    layout.keys.write(|out| redis_key::write(prefix, check.key, apart, out));
                    layout.hashes.push(SmallVec::new());
                    firsts.push(i);
                    firsts.len() - 1
                }
            };
            let fields = &mut layout.hashes[hash];
            fields.push(HashField { check: i, ago: 0, counter: check.counter });
            if with_previous {
                let older = previous_limits(check).zip(1..);
                fields.extend(older.map(|(f, ago)| HashField {
                    check: i,
                    ago,
                    counter: f.counter,
                }));
            }
        }
        layout
    }

    /// Returns all fields in the order of the reply.
    pub(super) fn fields(&self) -> impl Iterator<Item = HashField> {
        self.hashes.iter().flatten().copied()
    }
}

impl Arguments {
    /// Appends the field name of a counter: 16 hexadecimal digits.
    pub(super) fn field(&mut self, counter: CounterId) {
        // Writing to memory does not fail.
        self.write(|out| drop(write!(out, "{:016x}", counter.number())));
    }
}
