//! The input and output of a queue: the entry of a request, and its next step.

use std::sync::Arc;

use tollgate_core::{Span, Time};

use super::queue_order::ShareKey;

/// A request that joins a queue.
#[derive(Clone, Debug)]
pub(super) struct QueueEntry {
    /// The key whose queue it joins.
    pub(super) key: Arc<[u8]>,
    /// The tenant that takes turns with others in that queue.
    pub(super) tenant: ShareKey,
    /// The key under which its use of the shared capacity is counted.
    pub(super) share_key: ShareKey,
    pub(super) cost: u64,
    /// How long its cost takes to refill, where that is constant.
    pub(super) takes: Option<Span>,
    pub(super) deadline: Time,
    /// The capacity of the rule's queue.
    pub(super) capacity: u64,
    pub(super) lifo: bool,
    /// Whether tenants take turns.
    pub(super) fair: bool,
    /// Whether a permit of another key would serve as well.
    pub(super) accepts_alternatives: bool,
}

/// The error of a full queue, with the time when a position becomes free at the latest, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueFull(pub(super) Option<Time>);

/// The next step of a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Proceed.
    Go,
    /// Retry the decision.
    Retry,
    /// Wait until woken, or until this time.
    Wait(Option<Time>),
    /// Leave the queue: the request was displaced, or its patience is used up.
    Leave(Departure),
}

/// The times at which a queued request retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RetryTimes {
    /// When to retry if no capacity becomes free before.
    pub(super) at: Option<Time>,
    /// When the request passes if no other request spends.
    pub(super) passes_at: Option<Time>,
}

/// The reason why a request leaves its queue, and the consequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Departure {
    pub(super) is_late: bool,
    /// Whether its charge is refunded.
    pub(super) refunds_charge: bool,
    /// When a queue position becomes free.
    pub(super) next_free: Option<Time>,
}
