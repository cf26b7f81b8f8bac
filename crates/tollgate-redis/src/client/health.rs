//! The health of the servers, for operators and alarms.

use tollgate::{StoreErrorKind, Time};

/// The health of all servers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The health of each group, in the order of the addresses.
    pub groups: Vec<GroupHealth>,
    /// The number of health changes so far.
    pub(super) changes: u64,
}

impl Health {
    /// Returns whether all servers are healthy.
    pub fn is_healthy(&self) -> bool {
        self.groups.iter().all(GroupHealth::is_healthy)
    }
}

/// The health of a group of servers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupHealth {
    /// The name of the group: its addresses, or the name from its options.
    pub name: String,
    /// The servers that are down. Their counters are unavailable.
    pub outages: Vec<ServerOutage>,
}

impl GroupHealth {
    /// Returns whether all servers of the group are healthy.
    pub fn is_healthy(&self) -> bool {
        self.outages.is_empty()
    }
}

/// A server that is down. No command is sent to it until a probe succeeds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOutage {
    /// The address of the server.
    pub server: String,
    /// The time at which it went down.
    pub since: Time,
    /// The kind of error.
    pub kind: StoreErrorKind,
    /// What happened, and what to do about it.
    pub reason: String,
}
