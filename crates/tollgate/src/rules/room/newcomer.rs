//! What a waiting room is told of those who come, and what it tells them.

use std::sync::Arc;

use tollgate_core::{Span, Time};

use super::order::Party;

/// Somebody who wants to stand in line, and how.
#[derive(Clone, Debug)]
pub(super) struct Newcomer {
    /// Whose line it is.
    pub(super) key: Arc<[u8]>,
    /// Whose turn it takes there.
    pub(super) tenant: Party,
    /// Whose place it takes in the room.
    pub(super) party: Party,
    pub(super) cost: u64,
    /// How long its cost takes to come back, where that is always the same.
    pub(super) takes: Option<Span>,
    pub(super) deadline: Time,
    /// How many places the room has.
    pub(super) places: u64,
    pub(super) lifo: bool,
    /// Whether tenants take turns.
    pub(super) fair: bool,
    /// Whether what comes free for another key would do as well.
    pub(super) roams: bool,
}

/// There is no place; one comes free at this time at the latest, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full(pub(super) Option<Time>);

/// What somebody in line is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Go on.
    Go,
    /// Ask again.
    Ask,
    /// Wait until woken, or until then.
    Wait(Option<Time>),
    /// Leave: the place is another's, or its time is up.
    Leave(Leave),
}

/// When to ask again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Again {
    /// Without any news, then.
    pub(super) at: Option<Time>,
    /// It passes then, if nobody else spends.
    pub(super) passes_at: Option<Time>,
}

/// Why somebody has to leave, and what then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leave {
    pub(super) is_late: bool,
    /// Whether its charge is to be given back.
    pub(super) gives_back: bool,
    /// When a place comes free.
    pub(super) next_free: Option<Time>,
}
