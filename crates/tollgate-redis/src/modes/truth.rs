//! Where the truth about a counter is: at the servers or, in tests, in a table that several nodes
//! share.

use std::future::Future;

use tollgate::{Call, Check, Clock, Span, StoreError, Time};

use crate::strict::{Outcome, Strict};

/// Decides calls for all nodes.
pub(crate) trait Truth: Send + Sync + 'static {
    /// Runs a call: all or none.
    fn run(&self, call: Call<'_>) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// The latest it can be there now; none if nothing is known of its clock.
    fn latest(&self, check: &Check<'_>) -> Option<Time>;

    /// The clock of this node.
    fn clock(&self) -> &Clock;

    /// Counters of the same place are decided in one call.
    fn place(&self, check: &Check<'_>) -> u32;

    /// A call is executed within this time, or never.
    fn patience(&self) -> Span;
}

impl Truth for Strict {
    fn run(&self, call: Call<'_>) -> impl Future<Output = Result<Outcome, StoreError>> + Send {
        // In a box: callers nest what waits for a server many layers deep.
        Box::pin(Strict::run(self, call))
    }

    fn latest(&self, check: &Check<'_>) -> Option<Time> {
        Strict::latest(self, check)
    }

    fn clock(&self) -> &Clock {
        Strict::clock(self)
    }

    fn place(&self, check: &Check<'_>) -> u32 {
        let place = Strict::place_of(self, check);
        u32::from(place.group) << 16 | u32::from(place.slot)
    }

    fn patience(&self) -> Span {
        self.fleet().timeout().into()
    }
}
