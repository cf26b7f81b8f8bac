//! Memory for the lines of a table: segments that are never moved or freed.
//!
//! The array grows by a segment as large as all segments before it, so no line ever changes its
//! address. Readers need no protection from a resize, and a resize copies nothing.

use std::sync::OnceLock;

use crate::sync::{AtomicU64, zeroed};

/// Words in a cache line.
const CACHE_LINE_WORDS: usize = 8;
/// Enough segments for 2^40 lines.
const SEGMENTS: usize = 32;

/// An array of lines of `W` words each, allocated in segments.
///
/// Lines are numbered from zero. The first segment holds `2^BITS` lines.
#[derive(Debug)]
pub(super) struct SegmentedLines<const W: usize, const BITS: u32> {
    segments: [OnceLock<Segment>; SEGMENTS],
}

/// One allocation of lines.
#[derive(Debug)]
struct Segment {
    words: Box<[AtomicU64]>,
    /// The index of the first word that starts a cache line.
    aligned: usize,
}

impl<const W: usize, const BITS: u32> SegmentedLines<W, BITS> {
    pub(super) fn new() -> SegmentedLines<W, BITS> {
        SegmentedLines { segments: [const { OnceLock::new() }; SEGMENTS] }
    }

    /// Returns whether no line was used yet.
    pub(super) fn is_unused(&self) -> bool {
        self.segments[0].get().is_none()
    }

    /// Returns the line of that number; its segment is allocated on first use.
    #[inline(always)]
    pub(super) fn line(&self, number: u64) -> &[AtomicU64; W] {
        let (segment, offset) = match number >> BITS {
            0 => (0, number as usize),
            _ => Self::locate(number),
        };
        let segment = match self.segments[segment].get() {
            Some(segment) => segment,
            None => self.allocate(segment),
        };
        let start = segment.aligned + offset * W;
        let words = segment.words[start..].first_chunk();
        words.expect("a segment holds whole lines")
    }

    /// Returns the segment of a line and the position in it.
    ///
    /// Segment 0 holds the first `2^BITS` lines, segment `s` as many as all before it.
    fn locate(number: u64) -> (usize, usize) {
        let segment = (u64::BITS - (number >> BITS).leading_zeros()) as usize;
        let start = if segment == 0 { 0 } else { 1 << (BITS as usize + segment - 1) };
        (segment, number as usize - start)
    }

    #[cold]
    fn allocate(&self, segment: usize) -> &Segment {
        let lines = 1_usize << (BITS as usize + segment.saturating_sub(1));
        self.segments[segment].get_or_init(|| {
            let words = zeroed(lines * W + CACHE_LINE_WORDS);
            let aligned = words.as_ptr().align_offset(CACHE_LINE_WORDS * size_of::<u64>());
            Segment { aligned: aligned.min(CACHE_LINE_WORDS), words }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn every_number_is_a_separate_line() {
        let lines = SegmentedLines::<8, 2>::new();
        for number in 0..64 {
            lines.line(number)[0].store(number + 1, Ordering::Relaxed);
        }
        for number in 0..64 {
            assert_eq!(lines.line(number)[0].load(Ordering::Relaxed), number + 1);
            assert_eq!(lines.line(number)[1].load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn lines_start_on_cache_lines() {
        let lines = SegmentedLines::<8, 4>::new();
        for number in [0, 1, 15, 16, 17, 40] {
            assert_eq!(lines.line(number).as_ptr() as usize % 64, 0);
        }
    }
}
