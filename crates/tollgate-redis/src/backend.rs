//! The authority over the counters: the servers or, in tests, a table that several nodes share.

use std::future::Future;

use tollgate::{Check, Clock, Span, StoreCall, StoreError, Time};

use crate::strict::{Outcome, StrictStore};

/// Decides calls for all nodes.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Runs a call, all or none.
    fn run(&self, call: StoreCall<'_>) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Returns the latest possible time at the backend; `None` if its clock is unknown.
    fn latest(&self, check: &Check<'_>) -> Option<Time>;

    /// Returns the clock of this node.
    fn clock(&self) -> &Clock;

    /// Returns the route of a counter. Counters with the same route are decided in one call.
    fn route(&self, check: &Check<'_>) -> u32;

    /// The time within which a call is executed, or never.
    fn patience(&self) -> Span;
}

impl Backend for StrictStore {
    fn run(&self, call: StoreCall<'_>) -> impl Future<Output = Result<Outcome, StoreError>> + Send {
        // Boxed, because callers nest this future many layers deep.
        Box::pin(StrictStore::run(self, call))
    }

    fn latest(&self, check: &Check<'_>) -> Option<Time> {
        StrictStore::latest(self, check)
    }

    fn clock(&self) -> &Clock {
        StrictStore::clock(self)
    }

    fn route(&self, check: &Check<'_>) -> u32 {
        let route = StrictStore::route_of(self, check);
        u32::from(route.group) << 16 | u32::from(route.slot)
    }

    fn patience(&self) -> Span {
        self.client().timeout().into()
    }
}
