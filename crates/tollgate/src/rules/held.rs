//! Places that a request holds while it is in flight.

use smallvec::SmallVec;
use tollgate_core::Span;

use super::compiled::Bound;
use crate::limit::Engine;
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::{Check, Key};

/// What must be given back when a request is done.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    lease: u64,
    places: Vec<(Bound, Box<[u8]>)>,
}

impl Held {
    /// The places among what was taken, if there are any.
    pub(crate) fn of<'c>(
        lease: u64,
        taken: impl Iterator<Item = (&'c Bound, &'c [u8])>,
    ) -> Option<Box<Held>> {
        let is_place = |bound: &Bound| {
            matches!(bound.limit.engine(), Engine::Concurrent(_) | Engine::Adaptive(_))
        };
        let places: Vec<_> = taken
            .filter(|(bound, _)| is_place(bound))
            .map(|(bound, key)| (bound.clone(), key.into()))
            .collect();
        (!places.is_empty()).then(|| Box::new(Held { lease, places }))
    }

    /// Gives them back.
    pub(crate) async fn release<S: Store>(
        &self,
        store: &S,
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
        store
            .run(Call { action: Action::Release { rtt, dropped }, checks: &checks })
            .await
            .map(drop)
    }
}
