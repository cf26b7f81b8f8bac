//! What all expressions of a file may cost together, so that a hostile file is refused in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of expressions that are more than a name, in bytes. Reading a byte takes 0.1 µs at worst.
const TEXT: usize = 1 << 20;

/// Of patterns, in bytes once compiled: thirty of the largest, five hundred of the smallest kind.
const PATTERNS: usize = 4 << 20;

/// Counts down. Clones share what is left.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    text: Arc<AtomicUsize>,
    patterns: Arc<AtomicUsize>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { text: Arc::new(TEXT.into()), patterns: Arc::new(PATTERNS.into()) }
    }
}

impl Budget {
    /// Whether an expression of so many bytes is still within the budget.
    pub(super) fn take_text(&self, bytes: usize) -> bool {
        take(&self.text, bytes)
    }

    /// Whether an attempt at a pattern of so many bytes is still within the budget.
    pub(super) fn take_pattern(&self, bytes: usize) -> bool {
        take(&self.patterns, bytes)
    }
}

fn take(left: &AtomicUsize, bytes: usize) -> bool {
    let less = |left: usize| left.checked_sub(bytes);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}
