//! The header of a snapshot: format, times and seed.
//!
//! All numbers of a snapshot are little-endian.

use std::io::Read;

use tollgate_core::Time;

use super::error::SnapshotError;
use crate::key::{Fingerprint, FingerprintSeed, Fingerprinter};
use crate::store::CounterId;

/// The format that this version writes. It reads this one and all before it.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"tollsnap";
/// Numbers of eight bytes between the version and the checksum.
const WORDS: usize = 7;
/// Magic and version.
const START: usize = MAGIC.len() + 4;
pub(super) const LENGTH: usize = START + WORDS * 8 + 4;

/// The header of a snapshot.
#[derive(Debug)]
pub(super) struct SnapshotHeader {
    /// The time of the store.
    pub(super) saved_at: Time,
    /// The time of the wall clock.
    pub(super) saved_wall: Time,
    pub(super) seed: FingerprintSeed,
    /// The fingerprint of a fixed key, which shows whether the reader hashes like the writer.
    pub(super) probe: Fingerprint,
}

/// Returns the fingerprint of a fixed key.
pub(super) fn probe(fingerprinter: &Fingerprinter) -> Fingerprint {
    fingerprinter.fingerprint(CounterId::new(0), "snapshot".into())
}

impl SnapshotHeader {
    pub(super) fn new(
        saved_at: Time,
        saved_wall: Time,
        fingerprinter: &Fingerprinter,
    ) -> SnapshotHeader {
        let (seed, probe) = (fingerprinter.seed(), probe(fingerprinter));
        SnapshotHeader { saved_at, saved_wall, seed, probe }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let SnapshotHeader { saved_at, saved_wall, seed, probe } = self;
        let words: [u64; WORDS] = [
            saved_at.as_nanos(),
            saved_wall.as_nanos(),
            seed.shared,
            seed.home,
            seed.tag,
            probe[0],
            probe[1],
        ];
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    pub(super) fn read(from: &mut impl Read) -> Result<SnapshotHeader, SnapshotError> {
        let mut bytes = [0; LENGTH];
        from.read_exact(&mut bytes[..START])?;
        if bytes[..MAGIC.len()] != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        match number(MAGIC.len()) {
            0 => return Err(SnapshotError::Corrupt("its format is 0")),
            version if version > VERSION => return Err(SnapshotError::NewerVersion(version)),
            _ => {}
        }
        from.read_exact(&mut bytes[START..])?;
        let sum = u32::from_le_bytes(std::array::from_fn(|i| bytes[LENGTH - 4 + i]));
        if crc32fast::hash(&bytes[..LENGTH - 4]) != sum {
            return Err(SnapshotError::Corrupt("the checksum of its header is wrong"));
        }
        Ok(SnapshotHeader::from_words(&bytes))
    }

    /// Reads the words of a header whose checksum is right.
    pub(super) fn from_words(bytes: &[u8; LENGTH]) -> SnapshotHeader {
        let word = |index: usize| {
            u64::from_le_bytes(std::array::from_fn(|i| bytes[START + index * 8 + i]))
        };
        SnapshotHeader {
            saved_at: Time::from_nanos(word(0)),
            saved_wall: Time::from_nanos(word(1)),
            seed: FingerprintSeed { shared: word(2), home: word(3), tag: word(4) },
            probe: [word(5), word(6)],
        }
    }
}
