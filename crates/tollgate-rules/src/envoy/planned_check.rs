//! The checks of a plan, and the limits they are about.

use std::ops::Range;
use std::sync::Arc;

use tollgate::Action;
use tollgate_core::Verdict;

use super::rate_limit::CountedLimit;

/// A check of a descriptor.
#[derive(Clone, Debug)]
pub(super) struct PlannedCheck<'t> {
    /// The range of its key among the keys of the plan.
    pub(super) key: Range<usize>,
    pub(super) counted: LimitSource<'t>,
    pub(super) name: Option<&'t Arc<str>>,
    pub(super) cost: u64,
    pub(super) action: Action,
    /// The number of the descriptor.
    pub(super) item: usize,
}

impl PlannedCheck<'_> {
    /// Whether the limit is exceeded. A limit of 0 is counted as a limit of 1: the first hit leaves
    /// nothing of it.
    pub(super) fn is_over(&self, verdict: &Verdict) -> bool {
        !verdict.allowed || self.counted.get().requests == 0 && verdict.remaining == 0
    }
}

/// The source of a limit: the file, or the request itself.
#[derive(Clone, Debug)]
pub(super) enum LimitSource<'t> {
    File(&'t CountedLimit),
    Request(Box<CountedLimit>),
}

impl LimitSource<'_> {
    pub(super) fn get(&self) -> &CountedLimit {
        match self {
            LimitSource::File(counted) => counted,
            LimitSource::Request(counted) => counted,
        }
    }
}
