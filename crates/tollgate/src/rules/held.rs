//! Places that a request holds while it is in flight.

use smallvec::SmallVec;
use tollgate_core::Span;

use super::compiled::Bound;
use super::limiter::Shared;
use crate::limit::Engine;
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::{Check, Key};

/// What must be given back when a request is done.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    lease: u64,
    places: Vec<(Bound, Box<[u8]>)>,
    /// Whether they are places of this process, taken while the store did not answer.
    is_local: bool,
}

/// Whether a limit is on concurrency: what is taken is held, not spent.
pub(super) fn is_place(bound: &Bound) -> bool {
    matches!(bound.limit.engine(), Engine::Concurrent(_) | Engine::Adaptive(_))
}

impl Held {
    /// The places among what was taken, if there are any.
    pub(crate) fn of<'c>(
        lease: u64,
        taken: impl Iterator<Item = (&'c Bound, &'c [u8])>,
        is_local: bool,
    ) -> Option<Box<Held>> {
        let places: Vec<_> = taken
            .filter(|(bound, _)| is_place(bound))
            .map(|(bound, key)| (bound.clone(), key.into()))
            .collect();
        (!places.is_empty()).then(|| Box::new(Held { lease, places, is_local }))
    }

    /// Gives them back where they were taken.
    pub(crate) async fn release<S: Store>(
        &self,
        limiter: &Shared<S>,
        rtt: Span,
        dropped: bool,
    ) -> Result<(), StoreError> {
        let checks: SmallVec<[Check<'_>; 2]> = self
            .places
            .iter()
            .map(|(bound, key)| Check {
                lease: self.lease,
                ..Check::new(bound.bucket, Key::Bytes(key), &bound.limit, 1)
            })
            .collect();
        let call = Call { action: Action::Release { rtt, dropped }, checks: &checks };
        match limiter.local.get().filter(|_| self.is_local) {
            Some(local) => local.store.run(call).await.map(drop),
            None => limiter.store.run(call).await.map(drop),
        }
    }
}
