//! The budget of all expressions of a file together, so that a hostile file is refused quickly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of parts of expressions: ten thousand rules with a dozen parts each. A part
/// takes half a microsecond and 100 bytes.
const PARTS: usize = 120_000;

/// The maximum size of compiled patterns in bytes: a dozen of the largest, 256 of the smallest kind.
const PATTERNS: usize = 2 << 20;

/// The parts charged for an error: finding a suggestion takes time too.
const ERROR_PARTS: usize = PARTS / 500;

/// The remaining budget for the expressions of a file. Clones share it.
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
    /// Takes parts, and returns whether they are within the budget; once they are not, nothing is.
    pub(super) fn take(&self, parts: usize) -> bool {
        take(&self.parts, parts)
    }

    pub(super) fn take_error(&self) {
        take(&self.parts, ERROR_PARTS);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.parts.load(Ordering::Relaxed) == 0
    }

    /// Takes the bytes of a pattern, and returns whether they are within the budget.
    pub(super) fn take_pattern(&self, bytes: usize) -> bool {
        take(&self.patterns, bytes)
    }
}

fn take(left: &AtomicUsize, count: usize) -> bool {
    let less = |left: usize| Some(left.saturating_sub(count));
    // The update never fails.
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0);
    before >= count
}
