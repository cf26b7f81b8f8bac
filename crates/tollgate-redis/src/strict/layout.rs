//! Which counters a call touches, as keys and fields.
//!
//! The counters of one key are the fields of one hash, so that any number of limits on it costs one
//! look and one write.

use std::io::Write;

use smallvec::SmallVec;
use tollgate::state::formers;
use tollgate::{Bucket, Check};

use super::key;
use crate::words::Words;

/// A field of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The check it is about.
    pub(super) check: usize,
    /// How many limits before the check's own: 0 is its own.
    pub(super) ago: usize,
    pub(super) bucket: Bucket,
}

/// The hashes of a call, each with its fields.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) keys: Words,
    /// In the order in which they are asked for and answered.
    pub(super) hashes: SmallVec<[SmallVec<[Slot; 4]>; 2]>,
}

impl Layout {
    /// The counters of some checks, with those of the limits before theirs if wanted.
    pub(super) fn new(prefix: &str, checks: &[Check<'_>], with_formers: bool) -> Layout {
        let mut layout = Layout { keys: Words::default(), hashes: SmallVec::new() };
        let mut firsts: SmallVec<[usize; 2]> = SmallVec::new();
        for (i, check) in checks.iter().enumerate() {
            let same = |first: &usize| {
                checks[*first].key == check.key && !check.apart && !checks[*first].apart
            };
            let hash = match firsts.iter().position(same) {
                Some(hash) => hash,
                None => {
                    let apart = check.apart.then_some(check.bucket);
                    layout.keys.write(|out| key::write(prefix, check.key, apart, out));
                    layout.hashes.push(SmallVec::new());
                    firsts.push(i);
                    firsts.len() - 1
                }
            };
            let slots = &mut layout.hashes[hash];
            slots.push(Slot { check: i, ago: 0, bucket: check.bucket });
            if with_formers {
                let older = formers(check).zip(1..);
                slots.extend(older.map(|(f, ago)| Slot { check: i, ago, bucket: f.bucket }));
            }
        }
        layout
    }

    /// All fields, in the order in which they are answered.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.hashes.iter().flatten().copied()
    }
}

impl Words {
    /// The field of a bucket: 16 hexadecimal digits.
    pub(super) fn field(&mut self, bucket: Bucket) {
        // Writing to memory does not fail.
        self.write(|out| drop(write!(out, "{:016x}", bucket.number())));
    }
}
