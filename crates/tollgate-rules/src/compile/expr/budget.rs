//! The budget of all expressions of a file together, so that a hostile file is refused quickly.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use regex::Regex;

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
    /// The compiled patterns: one that occurs again costs nothing.
    compiled: Arc<Mutex<HashMap<Box<str>, Arc<Regex>>>>,
}

impl Default for Budget {
    fn default() -> Budget {
        let compiled = Arc::default();
        Budget { parts: Arc::new(PARTS.into()), patterns: Arc::new(PATTERNS.into()), compiled }
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

    /// Returns a pattern that was compiled before.
    pub(super) fn compiled_pattern(&self, pattern: &str) -> Option<Arc<Regex>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(pattern).cloned()
    }

    /// Keeps a compiled pattern, whose bytes were taken from the budget.
    pub(super) fn keep_pattern(&self, pattern: &str, regex: &Arc<Regex>) {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.insert(pattern.into(), regex.clone());
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
