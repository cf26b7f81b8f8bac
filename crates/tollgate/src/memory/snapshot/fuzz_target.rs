//! The fuzz target of snapshots.

use super::block::{BlockKind, checksum, head};
use super::header::{self, SnapshotHeader};
use super::{MemoryStore, RestoredStore};
use crate::key::Fingerprinter;
use crate::testing::ManualClock;
use crate::{Action, Check, CounterId, Limit, StoreCall};
use tollgate_core::Span;

/// The size of the end block: head, totals and checksum.
const END_BYTES: usize = 9 + 4 * 8 + 4;

/// The limits whose counters are asked of a restored store; the tests write snapshots with them.
const LIMITS: [&str; 6] =
    ["5/h", "997/h burst 6", "5/h fixed", "5/h sliding", "5/h log", "5/h warmup 1min"];

/// Reads any bytes as a snapshot, as they are and with correct checksums.
///
/// A store that was restored has the entries of its snapshot, writes them again, and decides.
pub fn fuzz_snapshot(bytes: &[u8]) {
    check(bytes);
    check(&repaired(bytes));
}

fn check(bytes: &[u8]) {
    let clock = ManualClock::new();
    let restore = |bytes: &[u8]| MemoryStore::new().clock(&clock).max_keys(1 << 16).restore(bytes);
    let Ok(RestoredStore { store, attachment, .. }) = restore(bytes) else { return };
    assert!(attachment.len() <= bytes.len());
    let written = write(&store, &attachment);
    let again = restore(&written).expect("a snapshot that was just written is read");
    assert_eq!(again.attachment, attachment);
    let rewritten = write(&again.store, &attachment);
    assert_eq!(totals(&rewritten), totals(&written), "an entry is lost");
    for text in LIMITS {
        let limit: Limit = text.parse().expect("the limit is valid");
        let check = Check::new(CounterId::from_parts(&[text]), "ann", &limit, 1);
        for action in [Action::Peek, Action::Take { max_wait: Span::ZERO }, Action::Spend] {
            let verdict = store.run_at(StoreCall { action, checks: &[check] }, store.now())[0];
            assert!(verdict.remaining <= verdict.limit, "{text}: {verdict:?}");
        }
    }
}

fn write(store: &MemoryStore, attachment: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.write_snapshot(attachment, &mut bytes).expect("writing to memory does not fail");
    bytes
}

/// Returns the numbers of entries that the end of a snapshot has.
fn totals(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len() - END_BYTES + 9..bytes.len() - 4]
}

/// Returns a snapshot with the blocks of an input, correct checksums and an end.
///
/// Without this, an arbitrary change would be found by a checksum and get no further.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let (header, mut rest) = bytes.split_at(bytes.len().min(header::LENGTH));
    let mut snapshot = repaired_header(header);
    let (mut totals, mut sum) = ([0_u64; 4], None);
    while let Some((block, after)) = rest.split_first_chunk::<9>() {
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| block[at + i]));
        if block[0] == BlockKind::End as u8 {
            break;
        }
        let (payload, after) = after.split_at(after.len().min(number(5) as usize));
        rest = after.get(4..).unwrap_or_default();
        if let Some(total) = totals.get_mut(usize::from(block[0])) {
            *total += u64::from(number(1));
        }
        let mut block = *block;
        block[5..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        sum = Some(add_block(&mut snapshot, sum, &block, payload));
    }
    let totals: Vec<u8> = totals.iter().flat_map(|total| total.to_le_bytes()).collect();
    let end = head(BlockKind::End, 0, totals.len() as u32);
    add_block(&mut snapshot, sum, &end, &totals);
    snapshot
}

/// Adds a block with its checksum, and returns the checksum.
fn add_block(snapshot: &mut Vec<u8>, before: Option<u32>, head: &[u8; 9], payload: &[u8]) -> u32 {
    let sum = checksum(before, head, payload);
    snapshot.extend_from_slice(head);
    snapshot.extend_from_slice(payload);
    snapshot.extend(sum.to_le_bytes());
    sum
}

/// Returns the header of an input with the probe and the checksum that belong to its seed.
fn repaired_header(bytes: &[u8]) -> Vec<u8> {
    let mut padded = [0; header::LENGTH];
    padded[..bytes.len()].copy_from_slice(bytes);
    let SnapshotHeader { saved_at, saved_wall, seed, .. } = SnapshotHeader::from_words(&padded);
    SnapshotHeader::new(saved_at, saved_wall, &Fingerprinter::from_seed(seed)).encode()
}
