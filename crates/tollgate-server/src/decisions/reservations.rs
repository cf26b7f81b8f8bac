//! Reservations: charges made in advance, and corrected once the real cost is known.
//!
//! A reservation is charged when it is made. Settling it charges the difference or returns it,
//! cancelling it returns all, and an abandoned one keeps its charge. The memory of reservations is
//! bounded, in total and for each client: a reservation that does not fit is rejected before anything
//! is charged. A settlement that the store could not execute leaves the reservation open.

mod metrics;
mod owner;
mod saved;
mod settle;
mod settled;
mod table;

use std::fmt;
use std::time::Duration;

use tollgate::{Clock, StoreError, Time, Verdicts};
use tollgate_rules::{Admission, Decision, Value};

use super::{DecisionService, InlineLimitList, RequestAttributes};
use crate::random_id::RandomId;
use crate::telemetry::DoorName;
pub(crate) use owner::ReservationOwner;
pub(crate) use saved::SavedReservation;
pub(crate) use settle::{SettledState, SettlementResult};
pub(crate) use table::{ReservationTable, ReservationsFull};

/// The time a reservation stays open unless the caller sets one.
pub(crate) const DEFAULT_OPEN_TIME: Duration = Duration::from_secs(600);
/// The memory of a reservation apart from its texts, in bytes.
const BASE_BYTES: usize = 1 << 10;

/// The id of a reservation. It is random, so callers cannot guess those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReservationId(RandomId);

impl ReservationId {
    fn new() -> Result<ReservationId, StoreError> {
        RandomId::new().map(ReservationId).map_err(|error| {
            StoreError::new("the system has no randomness to name a reservation").with_source(error)
        })
    }

    /// Returns the permit id of the reservation on a concurrency limit. Small numbers are those of
    /// decisions.
    fn lease(self) -> u64 {
        self.0.0 as u64 | 1 << 63
    }

    pub(crate) fn parse(text: &str) -> Option<ReservationId> {
        RandomId::parse(text).map(ReservationId)
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The counters that a reservation charged.
#[derive(Debug)]
enum ChargeTarget {
    Rules(Box<RequestAttributes<'static>>, Option<Admission>),
    /// The rules of a domain in Envoy's format, whose decisions keep no state.
    EnvoyRules(Box<RequestAttributes<'static>>),
    InlineLimits(Box<[u8]>, InlineLimitList),
}

/// An open reservation.
#[derive(Debug)]
struct Reservation {
    charged: ChargeTarget,
    amount: u64,
    since: Time,
    /// Locked while the reservation is being settled: whether its counters were corrected. Rules
    /// remember that themselves.
    is_corrected: tokio::sync::Mutex<bool>,
}

impl Reservation {
    fn new(charged: ChargeTarget, amount: u64, since: Time) -> Reservation {
        Reservation { charged, amount, since, is_corrected: tokio::sync::Mutex::new(false) }
    }

    /// Leaves the permits to their leases.
    fn detach(&self) {
        if let ChargeTarget::Rules(_, Some(admission)) = &self.charged {
            admission.detach();
        }
    }

    fn took(&self, clock: &Clock) -> Duration {
        clock.now().since(self.since).into()
    }
}

/// The real outcome of a reserved request.
#[derive(Debug)]
pub(crate) enum ReservationOutcome {
    /// The amount that was spent.
    Spent(u64),
    /// The attributes from which rules compute the cost.
    Attributes(Vec<(String, Value<'static>)>),
    /// Nothing was spent.
    Cancelled,
}

/// The reason why no reservation was decided.
#[derive(Debug)]
pub(crate) enum ReserveError {
    /// There is no room for the reservation. Nothing was charged.
    Full(ReservationsFull),
    /// The store gave no verdict.
    Store(StoreError),
}

impl From<ReservationsFull> for ReserveError {
    fn from(full: ReservationsFull) -> ReserveError {
        ReserveError::Full(full)
    }
}

impl From<StoreError> for ReserveError {
    fn from(error: StoreError) -> ReserveError {
        ReserveError::Store(error)
    }
}

impl DecisionService {
    /// Charges in advance by rules. Returns a reservation if the request is allowed.
    pub(crate) async fn reserve(
        &self,
        door: DoorName,
        owner: ReservationOwner,
        request_attributes: RequestAttributes<'_>,
        amount: Option<u64>,
        open: Option<Duration>,
    ) -> Result<(Decision, Option<(ReservationId, Duration)>), ReserveError> {
        let id = ReservationId::new()?;
        let bytes = BASE_BYTES + request_attributes.weight();
        let mut slot = self.0.reservations.admit(owner, bytes, self.clock().now())?;
        let amount = amount.unwrap_or(1);
        let mut decision =
            self.decide(door, &request_attributes.reservation(amount, open), amount).await;
        let domain = request_attributes.domain.as_deref();
        if !decision.allowed || self.unknown_domain(domain, &decision).is_some() {
            return Ok((decision, None));
        }
        let admission = decision.take_admission();
        if let Some(admission) = &admission
            && let Err(full) = slot.grow(admission.key_bytes())
        {
            admission.cancel().await?;
            return Err(full.into());
        }
        let expires = || admission.as_ref().and_then(Admission::expires_after);
        let open = open.or_else(expires).unwrap_or(DEFAULT_OPEN_TIME);
        let request_attributes = Box::new(request_attributes.into_owned());
        let charged = match decision.rule_location() {
            Some(_) => ChargeTarget::Rules(request_attributes, admission),
            None => ChargeTarget::EnvoyRules(request_attributes),
        };
        let since = self.clock().now();
        slot.fill(id, Reservation::new(charged, amount, since), since + open.into());
        Ok((decision, Some((id, open))))
    }

    /// Charges in advance by inline limits, all or none.
    pub(crate) async fn reserve_limits(
        &self,
        door: DoorName,
        owner: ReservationOwner,
        key: &[u8],
        limits: InlineLimitList,
        amount: u64,
        open: Duration,
    ) -> Result<(Verdicts, Option<ReservationId>), ReserveError> {
        let id = ReservationId::new()?;
        let bytes = BASE_BYTES + key.len();
        let slot = self.0.reservations.admit(owner, bytes, self.clock().now())?;
        let verdicts = self.check_inline_limits_as(door, key, &limits, amount, id.lease()).await?;
        if verdicts.iter().any(|verdict| !verdict.allowed) {
            return Ok((verdicts, None));
        }
        let since = self.clock().now();
        let charged = ChargeTarget::InlineLimits(key.into(), limits);
        slot.fill(id, Reservation::new(charged, amount, since), since + open.into());
        Ok((verdicts, Some(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back() {
        let id = ReservationId::new().unwrap();
        assert_eq!(ReservationId::parse(&id.to_string()), Some(id));
        for wrong in ["", "12", "+0000000000000000000000000000001", &"g".repeat(32)] {
            assert_eq!(ReservationId::parse(wrong), None);
        }
    }
}
