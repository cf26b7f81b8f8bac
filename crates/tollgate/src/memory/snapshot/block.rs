//! The blocks of a snapshot: entries of one kind, with a checksum.
//!
//! A block is its kind (1 byte), the number of its entries (4), the length of its payload (4), the
//! payload, and a CRC-32 of all this (4). Each checksum continues the one before, so a missing,
//! repeated or moved block is noticed too. The last block has the totals, so a cut is noticed as well.

use std::io::{self, Read, Write};

use super::error::SnapshotError;

/// The payload at which a block is written.
const FULL: usize = 64 << 10;
const HEAD: usize = 9;
/// The number of kinds of entries that are totalled.
const KINDS: usize = 4;

/// A kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Narrow = 0,
    Wide = 1,
    Boxed = 2,
    Attachment = 3,
    End = 255,
}

impl BlockKind {
    fn from_byte(byte: u8) -> Option<BlockKind> {
        use BlockKind::{Attachment, Boxed, End, Narrow, Wide};
        [Narrow, Wide, Boxed, Attachment, End].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The checksums of all blocks of a snapshot, which identify its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotDigest(Vec<u32>);

/// Writes blocks, or compares them with those of an earlier snapshot.
pub(super) struct BlockWriter<'d, W> {
    /// `None` if blocks are compared only.
    to: Option<W>,
    expected: Option<&'d [u32]>,
    kind: BlockKind,
    count: u32,
    payload: Vec<u8>,
    totals: [u64; KINDS],
    digest: SnapshotDigest,
}

impl<'d, W: Write> BlockWriter<'d, W> {
    pub(super) fn new(to: W) -> BlockWriter<'d, W> {
        BlockWriter { to: Some(to), ..BlockWriter::empty() }
    }

    fn empty() -> BlockWriter<'d, W> {
        BlockWriter {
            to: None,
            expected: None,
            kind: BlockKind::End,
            count: 0,
            payload: Vec::with_capacity(FULL + (FULL >> 3)),
            totals: [0; KINDS],
            digest: SnapshotDigest::default(),
        }
    }

    /// Starts a block of another kind.
    pub(super) fn start(&mut self, kind: BlockKind) -> io::Result<()> {
        self.flush()?;
        self.kind = kind;
        Ok(())
    }

    /// Adds an entry to the block. Touches no disk, so that the caller may hold a lock.
    #[inline]
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.payload);
        self.count += 1;
    }

    /// Writes the block if it is full. The caller holds no lock.
    #[inline]
    pub(super) fn flush_if_full(&mut self) -> io::Result<()> {
        if self.payload.len() < FULL { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        if let Some(total) = self.totals.get_mut(self.kind as usize) {
            *total += u64::from(self.count);
        }
        self.write_block()
    }

    fn write_block(&mut self) -> io::Result<()> {
        let length = u32::try_from(self.payload.len()).map_err(io::Error::other)?;
        let head = head(self.kind, self.count, length);
        let sum = checksum(self.digest.0.last().copied(), &head, &self.payload);
        if self.expected.is_some_and(|sums| sums.get(self.digest.0.len()) != Some(&sum)) {
            return Err(io::Error::other("the content has changed"));
        }
        self.digest.0.push(sum);
        if let Some(to) = &mut self.to {
            to.write_all(&head)?;
            to.write_all(&self.payload)?;
            to.write_all(&sum.to_le_bytes())?;
        }
        self.payload.clear();
        self.count = 0;
        Ok(())
    }

    /// Writes the last block.
    pub(super) fn finish(mut self) -> io::Result<SnapshotDigest> {
        self.start(BlockKind::End)?;
        let totals = self.totals;
        self.payload.extend(totals.iter().flat_map(|total| total.to_le_bytes()));
        self.write_block()?;
        if let Some(to) = &mut self.to {
            to.flush()?;
        }
        Ok(self.digest)
    }
}

impl<'d> BlockWriter<'d, io::Sink> {
    /// Creates a writer that fails at the first block that differs from the expected one.
    pub(super) fn comparing(digest: &'d SnapshotDigest) -> BlockWriter<'d, io::Sink> {
        BlockWriter { expected: Some(&digest.0), ..BlockWriter::empty() }
    }
}

pub(super) fn head(kind: BlockKind, count: u32, length: u32) -> [u8; HEAD] {
    let ([a, b, c, d], [e, f, g, h]) = (count.to_le_bytes(), length.to_le_bytes());
    [kind as u8, a, b, c, d, e, f, g, h]
}

pub(super) fn checksum(before: Option<u32>, head: &[u8; HEAD], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before.unwrap_or(0));
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// A block with a correct checksum.
#[derive(Debug)]
pub(super) struct Block<'b> {
    pub(super) kind: BlockKind,
    pub(super) count: u32,
    pub(super) payload: &'b [u8],
}

impl<'b> Block<'b> {
    /// Takes the next bytes of the payload.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let (bytes, rest) = self.payload.split_first_chunk().ok_or(WRONG_LENGTH)?;
        self.payload = rest;
        Ok(*bytes)
    }

    /// Takes the next number of the payload.
    pub(super) fn word(&mut self) -> Result<u64, SnapshotError> {
        self.take().map(u64::from_le_bytes)
    }

    /// Checks that all entries were taken.
    pub(super) fn end(&self) -> Result<(), SnapshotError> {
        if self.payload.is_empty() { Ok(()) } else { Err(WRONG_LENGTH) }
    }
}

const WRONG_LENGTH: SnapshotError = SnapshotError::Corrupt("a block has the wrong length");

/// Reads blocks and checks them.
pub(super) struct BlockReader<R> {
    from: R,
    sum: Option<u32>,
    payload: Vec<u8>,
    totals: [u64; KINDS],
}

impl<R: Read> BlockReader<R> {
    pub(super) fn new(from: R) -> BlockReader<R> {
        BlockReader { from, sum: None, payload: Vec::new(), totals: [0; KINDS] }
    }

    /// Returns the next block; `None` after the last one, if the snapshot is complete.
    pub(super) fn next(&mut self) -> Result<Option<Block<'_>>, SnapshotError> {
        let mut head = [0; HEAD];
        self.from.read_exact(&mut head)?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let (count, length) = (number(1), number(5));
        self.payload.clear();
        // Reads what is there: a wrong length allocates no more than the file has.
        let read = self.from.by_ref().take(length.into()).read_to_end(&mut self.payload)?;
        let mut sum = [0; 4];
        self.from.read_exact(&mut sum)?;
        let sum = u32::from_le_bytes(sum);
        if read != length as usize || checksum(self.sum, &head, &self.payload) != sum {
            return Err(SnapshotError::Corrupt("the checksum of a block is wrong"));
        }
        self.sum = Some(sum);
        let Some(kind) = BlockKind::from_byte(head[0]) else {
            return Err(SnapshotError::Corrupt("a block is of an unknown kind"));
        };
        if kind == BlockKind::End {
            return self.check_end().map(|()| None);
        }
        if let Some(total) = self.totals.get_mut(kind as usize) {
            *total += u64::from(count);
        }
        Ok(Some(Block { kind, count, payload: &self.payload }))
    }

    fn check_end(&mut self) -> Result<(), SnapshotError> {
        let expected: Vec<u8> = self.totals.iter().flat_map(|total| total.to_le_bytes()).collect();
        if self.payload != expected {
            return Err(SnapshotError::Corrupt("the number of its entries is wrong"));
        }
        match self.from.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(SnapshotError::Corrupt("it goes on after its end")),
        }
    }
}
