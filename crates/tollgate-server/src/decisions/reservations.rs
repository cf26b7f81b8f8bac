//! Reservations: charges made in advance, and corrected once the real cost is known.
//!
//! A reservation is charged when it is made. Settling it charges the difference or returns it,
//! cancelling it returns all, and an abandoned one keeps its charge. The memory for reservations is
//! bounded: at the bound the one that expires first is forgotten, and its charge stays.

mod saved;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::{Action, Clock, StoreError, Time, Verdict};
use tollgate_rules::{Adjustment, Admission, Decision, Outcome as RequestOutcome, Request, Value};

use super::{DecisionService, InlineLimit, RequestAttributes};
use crate::random_id::RandomId;
use crate::telemetry::DoorName;
pub(crate) use saved::SavedReservation;

/// The maximum memory of all reservations, in bytes.
const MAX_WEIGHT: usize = 64 << 20;
/// The time a reservation stays open unless the caller sets one.
pub(crate) const DEFAULT_OPEN_TIME: Duration = Duration::from_secs(600);
/// The memory of a reservation apart from its texts, in bytes.
const BASE_WEIGHT: usize = 1 << 10;

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
    InlineLimit(Box<[u8]>, Arc<InlineLimit>),
}

#[derive(Debug)]
struct Reservation {
    charged: ChargeTarget,
    amount: u64,
    since: Time,
    expires: Time,
    weight: usize,
}

/// All open reservations.
#[derive(Debug)]
pub(super) struct Reservations {
    max_weight: usize,
    open: Mutex<OpenReservations>,
}

#[derive(Debug, Default)]
struct OpenReservations {
    by_id: HashMap<ReservationId, Reservation>,
    by_expiry: BTreeSet<(Time, ReservationId)>,
    weight: usize,
}

impl Default for Reservations {
    fn default() -> Reservations {
        Reservations { max_weight: MAX_WEIGHT, open: Mutex::default() }
    }
}

impl Reservations {
    fn insert(&self, id: ReservationId, reservation: Reservation) {
        let mut open = self.open.lock();
        open.weight += reservation.weight;
        open.by_expiry.insert((reservation.expires, id));
        open.by_id.insert(id, reservation);
        while open.weight > self.max_weight {
            let Some((_, first)) = open.by_expiry.pop_first() else { break };
            if let Some(forgotten) = open.by_id.remove(&first) {
                open.weight -= forgotten.weight;
                forgotten.detach();
            }
        }
    }

    fn take(&self, id: ReservationId) -> Option<Reservation> {
        let mut open = self.open.lock();
        let reservation = open.by_id.remove(&id)?;
        open.by_expiry.remove(&(reservation.expires, id));
        open.weight -= reservation.weight;
        Some(reservation)
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

/// The result of settling a reservation.
#[derive(Debug)]
pub(crate) enum SettlementResult {
    /// The state of the limits after settling by rules.
    ByRules(Box<Decision>),
    /// The state of an inline limit after settling.
    ByLimit(Arc<InlineLimit>, Verdict),
    /// The reservation had expired: its charge stays, and any further cost is charged too.
    Expired,
    /// An outcome was reported to an inline limit, which has no rules to use it. The reservation
    /// stays open.
    WithoutRules,
    /// The reservation never existed, is settled, or was forgotten.
    Unknown,
}

impl DecisionService {
    /// Charges in advance by rules. Returns a reservation if the request is allowed.
    pub(crate) async fn reserve(
        &self,
        door: DoorName,
        request_attributes: RequestAttributes<'_>,
        amount: Option<u64>,
        open: Option<Duration>,
    ) -> Result<(Decision, Option<(ReservationId, Duration)>), StoreError> {
        let id = ReservationId::new()?;
        let amount = amount.unwrap_or(1);
        let mut decision =
            self.decide(door, &request_attributes.reservation(amount, open), amount).await;
        if !decision.allowed {
            return Ok((decision, None));
        }
        let admission = decision.take_admission();
        let expires = || admission.as_ref().and_then(Admission::expires_after);
        let open = open.or_else(expires).unwrap_or(DEFAULT_OPEN_TIME);
        let weight = BASE_WEIGHT + request_attributes.weight();
        let request_attributes = Box::new(request_attributes.into_owned());
        let charged = match decision.rule_location() {
            Some(_) => ChargeTarget::Rules(request_attributes, admission),
            None => ChargeTarget::EnvoyRules(request_attributes),
        };
        self.insert(id, charged, amount, open, weight);
        Ok((decision, Some((id, open))))
    }

    /// Charges in advance by an inline limit.
    pub(crate) async fn reserve_limit(
        &self,
        door: DoorName,
        key: &[u8],
        inline: Arc<InlineLimit>,
        amount: u64,
        open: Duration,
    ) -> Result<(Verdict, Option<ReservationId>), StoreError> {
        let id = ReservationId::new()?;
        let verdict = self.check_inline_as(door, key, &inline, amount, id.lease()).await?;
        if !verdict.allowed {
            return Ok((verdict, None));
        }
        let weight = BASE_WEIGHT + key.len();
        self.insert(id, ChargeTarget::InlineLimit(key.into(), inline), amount, open, weight);
        Ok((verdict, Some(id)))
    }

    fn insert(
        &self,
        id: ReservationId,
        charged: ChargeTarget,
        amount: u64,
        open: Duration,
        weight: usize,
    ) {
        let since = self.clock().now();
        let expires = since + open.into();
        self.0.reservations.insert(id, Reservation { charged, amount, since, expires, weight });
    }

    /// Charges the difference to the real cost, or returns the whole charge of a cancelled request.
    /// A reservation is settled once.
    pub(crate) async fn settle(
        &self,
        id: ReservationId,
        outcome: ReservationOutcome,
    ) -> Result<SettlementResult, StoreError> {
        let Some(reservation) = self.0.reservations.take(id) else {
            return Ok(SettlementResult::Unknown);
        };
        let expired = self.clock().now() >= reservation.expires;
        let outcome = match (&reservation.charged, outcome) {
            (_, ReservationOutcome::Cancelled) if expired => {
                reservation.detach();
                SettlementResult::Expired
            }
            (ChargeTarget::Rules(request_attributes, admission), outcome) => {
                let request = request_attributes.request(reservation.amount);
                if let Some(admission) = admission {
                    self.settle_rules(&reservation, &request, admission, &outcome).await?;
                }
                SettlementResult::ByRules(Box::new(self.adjust(&request, Adjustment::Peek).await?))
            }
            (ChargeTarget::EnvoyRules(request_attributes), outcome) => {
                let adjustment = match outcome {
                    ReservationOutcome::Spent(spent) => {
                        Adjustment::Settle { held: reservation.amount, spent }
                    }
                    ReservationOutcome::Attributes(_) => Adjustment::Peek,
                    ReservationOutcome::Cancelled => Adjustment::Cancel(reservation.amount),
                };
                let settled = self
                    .adjust(&request_attributes.request(reservation.amount), adjustment)
                    .await?;
                SettlementResult::ByRules(Box::new(settled))
            }
            (ChargeTarget::InlineLimit(..), ReservationOutcome::Attributes(_)) => {
                self.0.reservations.insert(id, reservation);
                return Ok(SettlementResult::WithoutRules);
            }
            (ChargeTarget::InlineLimit(..), ReservationOutcome::Spent(spent))
                if expired && spent <= reservation.amount =>
            {
                SettlementResult::Expired
            }
            (ChargeTarget::InlineLimit(key, inline), outcome) => {
                let spent = if let ReservationOutcome::Spent(spent) = outcome { spent } else { 0 };
                if let Err(error) = self.settle_limit(&reservation, id, key, inline, spent).await {
                    if error.kind().did_nothing() {
                        // The caller may try again.
                        self.0.reservations.insert(id, reservation);
                    }
                    return Err(error);
                }
                let verdict = self.adjust_inline(Action::Peek, key, inline, 0).await?;
                SettlementResult::ByLimit(inline.clone(), verdict)
            }
        };
        Ok(if expired { SettlementResult::Expired } else { outcome })
    }

    async fn settle_rules<'r>(
        &self,
        reservation: &Reservation,
        request: &Request<'r>,
        admission: &Admission,
        outcome: &'r ReservationOutcome,
    ) -> Result<(), StoreError> {
        let took = reservation.took(self.clock());
        match outcome {
            ReservationOutcome::Spent(spent) => {
                admission.settle(RequestOutcome::spent(request, *spent).took(took)).await
            }
            ReservationOutcome::Attributes(fields) => {
                let answered = fields.iter().fold(request.clone(), |outcome, (name, value)| {
                    outcome.attribute(name, value.clone())
                });
                admission.settle(RequestOutcome::of(&answered).took(took)).await
            }
            ReservationOutcome::Cancelled => admission.cancel().await,
        }
    }

    async fn settle_limit(
        &self,
        reservation: &Reservation,
        id: ReservationId,
        key: &[u8],
        inline: &Arc<InlineLimit>,
        spent: u64,
    ) -> Result<(), StoreError> {
        let lease = id.lease();
        let rtt = reservation.took(self.clock()).into();
        self.adjust_inline_as(Action::Release { rtt, dropped: false }, key, inline, 0, lease)
            .await?;
        let (action, amount) = match spent > reservation.amount {
            true => (Action::Spend, spent - reservation.amount),
            false => (Action::Refund, reservation.amount - spent),
        };
        if amount > 0 {
            self.adjust_inline_as(action, key, inline, amount, lease).await?;
        }
        Ok(())
    }
}

impl Reservation {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(expires: u64) -> Reservation {
        let inline = Arc::new(InlineLimit::new("1/s".parse().unwrap()));
        let charged = ChargeTarget::InlineLimit(b"ann".as_slice().into(), inline);
        let time = Time::from_nanos;
        Reservation { charged, amount: 1, since: time(0), expires: time(expires), weight: 10 }
    }

    #[test]
    fn at_the_bound_the_first_to_expire_is_forgotten() {
        let reservations = Reservations { max_weight: 30, open: Mutex::default() };
        let id = |number| ReservationId(RandomId(number));
        for (number, expires) in [(1, 50), (2, 20), (3, 90), (4, 70)] {
            reservations.insert(id(number), reservation(expires));
        }
        assert!(reservations.take(id(2)).is_none());
        assert!(reservations.take(id(1)).is_some());
        assert!(reservations.take(id(1)).is_none(), "only once");
        assert!(reservations.take(id(3)).is_some() && reservations.take(id(4)).is_some());
        let open = reservations.open.lock();
        assert_eq!((open.weight, open.by_id.len(), open.by_expiry.len()), (0, 0, 0));
    }

    #[test]
    fn a_name_reads_back() {
        let id = ReservationId::new().unwrap();
        assert_eq!(ReservationId::parse(&id.to_string()), Some(id));
        for wrong in ["", "12", "+0000000000000000000000000000001", &"g".repeat(32)] {
            assert_eq!(ReservationId::parse(wrong), None);
        }
    }
}
