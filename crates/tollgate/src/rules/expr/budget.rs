//! What all expressions of a file may cost together, so that a hostile file is refused in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts of expressions: ten thousand rules with a dozen parts each. A part takes half a
/// microsecond and 100 bytes.
const PARTS: usize = 120_000;

/// Patterns, in bytes once compiled: a dozen of the largest, 256 of the smallest kind.
const PATTERNS: usize = 2 << 20;

/// What a mistake is charged as: finding out what was meant takes time too.
const MISTAKE: usize = PARTS / 500;

/// Counts down. Clones share what is left.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    parts: Arc<AtomicUsize>,
    patterns: Arc<AtomicUsize>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { parts: Arc::new(PARTS.into()), patterns: Arc::new(PATTERNS.into()) }
    }
}

impl Budget {
    /// Whether so many parts are still within the budget; once they are not, nothing is.
    pub(super) fn take(&self, parts: usize) -> bool {
        take(&self.parts, parts)
    }

    pub(super) fn take_mistake(&self) {
        take(&self.parts, MISTAKE);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.parts.load(Ordering::Relaxed) == 0
    }

    /// Whether an attempt at a pattern of so many bytes is still within the budget.
    pub(super) fn take_pattern(&self, bytes: usize) -> bool {
        take(&self.patterns, bytes)
    }
}

fn take(left: &AtomicUsize, count: usize) -> bool {
    let less = |left: usize| Some(left.saturating_sub(count));
    // The closure never refuses.
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0);
    before >= count
}
