//! Snapshots: the states of a memory store in a file, so that they survive a restart.
//!
//! [`MemoryStore::write_snapshot`] writes one while the store goes on deciding: it locks one line of
//! a table at a time, and none while it waits for the disk. The state of every key is saved as it was
//! at one moment. The moments of different keys differ, by at most the time that the writing takes.
//!
//! [`MemoryStore::restore`] reads one. A snapshot that is cut, changed or of a newer version is an
//! error, never a panic, and leaves no half-filled store behind.
//!
//! The store's clock goes on from where it was, so that states keep their meaning. The time that the
//! process was stopped is taken from the wall clock. If that was set back meanwhile, no time counts as
//! passed: no key is locked out for longer than it was. If it was set forward, keys are free sooner,
//! which admits at most one burst more.
//!
//! Not saved: permits of concurrency limits, since their holders usually end with the process, and
//! what adaptive limits have learned. Snapshots belong to the counters that wrote them: an id such as
//! [`CounterId::from_parts`](crate::CounterId::from_parts) over the text of the limit ensures that a
//! changed limit does not find the states of another one.
//!
//! A snapshot contains the seed of the store's fingerprints, which clients must not know, but no key.
//!
//! ```
//! use tollgate::{Check, CounterId, Limit, MemoryStore};
//!
//! let (limit, counter): (Limit, _) = ("5/h".parse()?, CounterId::from_parts(&["login", "5/h"]));
//! let ann = Check::new(counter, "ann", &limit, 2);
//! let store = MemoryStore::new();
//! store.decide_one_now(&ann);
//! let mut file = Vec::new();
//! store.write_snapshot(b"", &mut file)?;
//!
//! let restored = MemoryStore::new().restore(file.as_slice())?;
//! assert_eq!(restored.store.decide_one_now(&ann).remaining, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod boxed_entry;
mod error;
#[cfg(any(test, fuzzing))]
mod fuzz_target;
mod header;
mod table_entry;

use std::io::{self, Read, Write};

use tollgate_core::{Span, Time};

use self::block::{BlockKind, BlockReader, BlockWriter};
use self::header::SnapshotHeader;
use super::MemoryStore;
use super::slot_class::SlotClass;
use crate::Clock;
use crate::key::Fingerprinter;

pub use self::block::SnapshotDigest;
pub use self::error::SnapshotError;
#[cfg(any(test, fuzzing))]
pub use self::fuzz_target::fuzz_snapshot;
pub use self::header::VERSION;

/// The largest difference between the store's clock and the wall clock that counts as drift.
///
/// The store's clock then takes the time of the wall clock. Larger differences are steps of the wall
/// clock, which change no decision.
const MAX_DRIFT: Span = Span::from_secs(60);

/// The length of the parts in which an attachment is written.
const ATTACHMENT_PART: usize = 1 << 20;

/// A store with the states of a snapshot.
#[derive(Debug)]
#[non_exhaustive]
pub struct RestoredStore {
    /// The store, which decides by [`clock`](Self::clock).
    pub store: MemoryStore,
    /// The clock of the store, which goes on from the time of the snapshot.
    pub clock: Clock,
    /// The time of the wall clock when the snapshot was begun. Later charges may be missing.
    pub saved_wall: Time,
    /// The bytes that were saved with the states.
    pub attachment: Vec<u8>,
}

impl MemoryStore {
    /// Writes all states that are not full, and an attachment of the caller's.
    ///
    /// The result identifies the content, for [`matches_snapshot`](Self::matches_snapshot). The
    /// caller makes the writes durable. `to` should be a file: its blocks have about 64 KiB.
    pub fn write_snapshot(
        &self,
        attachment: &[u8],
        mut to: impl Write,
    ) -> io::Result<SnapshotDigest> {
        let header = SnapshotHeader::new(self.now(), self.clock.wall(), &self.fingerprinter);
        to.write_all(&header.encode())?;
        let mut blocks = BlockWriter::new(to);
        self.write_blocks(attachment, &mut blocks)?;
        blocks.finish()
    }

    /// Returns whether a snapshot would have the content of an earlier one.
    ///
    /// Stops at the first difference, so that this costs little unless nothing has changed.
    pub fn matches_snapshot(&self, attachment: &[u8], digest: &SnapshotDigest) -> bool {
        let mut blocks = BlockWriter::comparing(digest);
        self.write_blocks(attachment, &mut blocks).and_then(|()| blocks.finish()).is_ok()
    }

    fn write_blocks<W: Write>(
        &self,
        attachment: &[u8],
        blocks: &mut BlockWriter<'_, W>,
    ) -> io::Result<()> {
        let now = self.now();
        for part in attachment.chunks(ATTACHMENT_PART) {
            blocks.start(BlockKind::Attachment)?;
            blocks.add(|bytes| bytes.extend_from_slice(part));
        }
        blocks.start(BlockKind::Narrow)?;
        self.narrow.write_entries(blocks, now.as_nanos())?;
        blocks.start(BlockKind::Wide)?;
        self.wide.write_entries(blocks, now.as_nanos())?;
        blocks.start(BlockKind::Boxed)?;
        self.boxed.write_entries(blocks, now)
    }

    /// Fills an empty store with the states of a snapshot.
    ///
    /// Set the clock and the maximum number of keys before. If the snapshot has more keys than the
    /// store may have, those that owe least are left out.
    pub fn restore(mut self, mut from: impl Read) -> Result<RestoredStore, SnapshotError> {
        let header = SnapshotHeader::read(&mut from)?;
        self.fingerprinter = Fingerprinter::from_seed(header.seed);
        if header.probe != header::probe(&self.fingerprinter) {
            return Err(SnapshotError::ForeignHash);
        }
        let resumed = resume_time(header.saved_at, header.saved_wall, self.clock.wall());
        self.clock = self.clock.resumed_at(resumed);
        let (mut attachment, mut blocks) = (Vec::new(), BlockReader::new(from));
        while let Some(block) = blocks.next()? {
            match block.kind {
                BlockKind::Narrow => {
                    table_entry::restore(&self, &self.narrow, SlotClass::Narrow, block, resumed)?;
                }
                BlockKind::Wide => {
                    table_entry::restore(&self, &self.wide, SlotClass::Wide, block, resumed)?;
                }
                BlockKind::Boxed => boxed_entry::restore(&self, block, resumed)?,
                BlockKind::Attachment => attachment.extend_from_slice(block.payload),
                BlockKind::End => return Err(SnapshotError::Corrupt("it has a second end")),
            }
        }
        let clock = self.clock.clone();
        Ok(RestoredStore { store: self, clock, saved_wall: header.saved_wall, attachment })
    }
}

/// Returns the time at which the clock of a store goes on.
///
/// The time since the snapshot is that of the wall clock, but never negative.
fn resume_time(saved_at: Time, saved_wall: Time, wall: Time) -> Time {
    let resumed = saved_at + wall.since(saved_wall);
    let is_drift = wall > resumed && wall.since(resumed) <= MAX_DRIFT;
    if is_drift { wall } else { resumed }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
