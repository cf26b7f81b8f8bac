//! How the servers are, for people and for alarms.

use tollgate::{StoreErrorKind, Time};

/// How the servers are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// One for each group, in the order of their addresses.
    pub groups: Vec<GroupHealth>,
    /// Counts changes for better or worse.
    pub(super) changes: u64,
}

impl Health {
    /// Whether all of them work.
    pub fn is_well(&self) -> bool {
        self.groups.iter().all(GroupHealth::is_well)
    }
}

/// How a group of servers is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupHealth {
    /// What the group is called: its addresses, or the name it was given.
    pub name: String,
    /// The servers in trouble. What they keep is not counted at the moment.
    pub troubles: Vec<ServerTrouble>,
}

impl GroupHealth {
    /// Whether all of it works.
    pub fn is_well(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// A server that is left alone until it is well again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerTrouble {
    /// Where it is.
    pub server: String,
    /// Since when.
    pub since: Time,
    /// What sort of trouble it is.
    pub kind: StoreErrorKind,
    /// What happened, and what to do about it.
    pub why: String,
}
