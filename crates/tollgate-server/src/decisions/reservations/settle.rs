//! Settling and cancelling reservations.
//!
//! A reservation is settled once, however often a client repeats the call. Calls about the same
//! reservation wait for each other. After an error of the store the reservation stays open: changes
//! that the store certainly did not make are made by the next call, and a change whose reply was lost is
//! not repeated.

use std::sync::Arc;

use bytes::Bytes;
use tollgate::{Action, StoreError, Verdict};
use tollgate_rules::{Adjustment, Admission, Decision, Outcome as RequestOutcome, Request};

use super::settled::OutcomeHash;
use super::{ChargeTarget, DEFAULT_OPEN_TIME, Reservation, ReservationId, ReservationOutcome};
use crate::background::{BackgroundWorker, guarded};
use crate::decisions::{DecisionService, InlineLimit, RequestAttributes};

/// The state of the limits after a settlement.
#[derive(Debug)]
pub(crate) enum SettledState {
    ByRules(Box<Decision>),
    ByLimit(Arc<InlineLimit>, Verdict),
}

/// Renders the state after a settlement, so that a repeated call gets the same text.
pub(crate) type SettlementRenderer = fn(&SettledState) -> Vec<u8>;

/// The result of settling a reservation.
#[derive(Clone, Debug)]
pub(crate) enum SettlementResult {
    /// The rendered state of the limits after settling.
    Settled(Bytes),
    /// The reservation had expired: its charge stays, and any further cost is charged too.
    Expired,
    /// An outcome was reported to an inline limit, which has no rules to use it. The reservation
    /// stays open.
    WithoutRules,
    /// The reservation never existed, is settled, or was forgotten.
    Unknown,
}

impl DecisionService {
    /// Charges the difference to the real cost, or returns the whole charge of a cancelled request.
    ///
    /// The settlement continues if the caller is cancelled, because it may be half done.
    pub(crate) async fn settle(
        &self,
        id: ReservationId,
        outcome: ReservationOutcome,
        render: SettlementRenderer,
    ) -> Result<SettlementResult, StoreError> {
        let this = self.clone();
        let settling = async move { this.settle_in_turn(id, outcome, render).await };
        let settling = tokio::spawn(guarded(BackgroundWorker::Settlement, settling));
        let interrupted = |error| {
            Err(StoreError::new("the settlement was interrupted; try again").with_source(error))
        };
        settling.await.unwrap_or_else(interrupted)
    }

    async fn settle_in_turn(
        &self,
        id: ReservationId,
        outcome: ReservationOutcome,
        render: SettlementRenderer,
    ) -> Result<SettlementResult, StoreError> {
        let table = &self.0.reservations;
        let hash = OutcomeHash::new(&outcome);
        let unknown = || table.settled(id, hash).unwrap_or(SettlementResult::Unknown);
        let Some(reservation) = table.get(id) else { return Ok(unknown()) };
        let mut is_corrected = reservation.is_corrected.lock().await;
        // Another call may have settled it meanwhile.
        let Some(expires) = table.expiry(id) else { return Ok(unknown()) };
        let is_expired = self.clock().now() >= expires;
        let result = self
            .settle_open(&reservation, id, outcome, is_expired, &mut is_corrected, render)
            .await;
        let now = self.clock().now();
        match &result {
            Ok(SettlementResult::WithoutRules) => {}
            Ok(settled) => table.close(id, hash, settled.clone(), now),
            // The client was in time, and needs some to try again.
            Err(_) if !is_expired => table.extend(id, now + DEFAULT_OPEN_TIME.into()),
            Err(_) => {}
        }
        result
    }

    async fn settle_open(
        &self,
        reservation: &Reservation,
        id: ReservationId,
        outcome: ReservationOutcome,
        is_expired: bool,
        is_corrected: &mut bool,
        render: SettlementRenderer,
    ) -> Result<SettlementResult, StoreError> {
        if is_expired && matches!(outcome, ReservationOutcome::Cancelled) {
            reservation.detach();
            return Ok(SettlementResult::Expired);
        }
        let state = match &reservation.charged {
            ChargeTarget::Rules(attributes, admission) => {
                let request = attributes.request(reservation.amount);
                if let Some(admission) = admission {
                    self.settle_rules(reservation, &request, admission, &outcome).await?;
                }
                if is_expired {
                    return Ok(SettlementResult::Expired);
                }
                let decision = self.adjust(&request, Adjustment::Peek).await?;
                SettledState::ByRules(Box::new(decision))
            }
            ChargeTarget::EnvoyRules(attributes) => {
                let change = reservation.change(&outcome, is_expired).filter(|_| !*is_corrected);
                let decision =
                    self.settle_envoy_rules(reservation, attributes, change, is_corrected).await?;
                SettledState::ByRules(Box::new(decision))
            }
            ChargeTarget::InlineLimit(..)
                if matches!(outcome, ReservationOutcome::Attributes(_)) =>
            {
                return Ok(SettlementResult::WithoutRules);
            }
            ChargeTarget::InlineLimit(key, inline) => {
                let change = reservation.change(&outcome, is_expired).filter(|_| !*is_corrected);
                self.settle_limit(reservation, id, key, inline, change, is_corrected).await?;
                if is_expired {
                    return Ok(SettlementResult::Expired);
                }
                let verdict = self.adjust_inline(Action::Peek, key, inline, 0).await?;
                SettledState::ByLimit(inline.clone(), verdict)
            }
        };
        Ok(match is_expired {
            true => SettlementResult::Expired,
            false => SettlementResult::Settled(render(&state).into()),
        })
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

    async fn settle_envoy_rules(
        &self,
        reservation: &Reservation,
        attributes: &RequestAttributes<'_>,
        change: Option<AmountChange>,
        is_corrected: &mut bool,
    ) -> Result<Decision, StoreError> {
        let request = attributes.request(reservation.amount);
        let adjustment = match change {
            None => return self.adjust(&request, Adjustment::Peek).await,
            Some(AmountChange::More(amount)) => Adjustment::Spend(amount),
            Some(AmountChange::Less(amount)) => Adjustment::Refund(amount),
        };
        let corrected = self.adjust(&request, adjustment).await;
        *is_corrected = may_have_changed(&corrected);
        corrected
    }

    async fn settle_limit(
        &self,
        reservation: &Reservation,
        id: ReservationId,
        key: &[u8],
        inline: &Arc<InlineLimit>,
        change: Option<AmountChange>,
        is_corrected: &mut bool,
    ) -> Result<(), StoreError> {
        let lease = id.lease();
        let rtt = reservation.took(self.clock()).into();
        // A permit comes back once, however often it is returned.
        self.adjust_inline_as(Action::Release { rtt, dropped: false }, key, inline, 0, lease)
            .await?;
        let (action, amount) = match change {
            None => return Ok(()),
            Some(AmountChange::More(amount)) => (Action::Spend, amount),
            Some(AmountChange::Less(amount)) => (Action::Refund, amount),
        };
        let corrected = self.adjust_inline_as(action, key, inline, amount, lease).await;
        *is_corrected = may_have_changed(&corrected);
        corrected.map(drop)
    }
}

/// Returns whether a call has changed counters, or may have.
fn may_have_changed<T>(result: &Result<T, StoreError>) -> bool {
    result.as_ref().err().is_none_or(|error| !error.kind().did_nothing())
}

/// The difference between a reserved amount and the real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AmountChange {
    More(u64),
    Less(u64),
}

impl Reservation {
    /// Returns the difference to the real amount, if there is one. An expired reservation keeps its
    /// charge.
    fn change(&self, outcome: &ReservationOutcome, is_expired: bool) -> Option<AmountChange> {
        let spent = match outcome {
            ReservationOutcome::Spent(spent) => *spent,
            ReservationOutcome::Attributes(_) => return None,
            ReservationOutcome::Cancelled => 0,
        };
        match spent.checked_sub(self.amount) {
            Some(0) => None,
            Some(more) => Some(AmountChange::More(more)),
            None if is_expired => None,
            None => Some(AmountChange::Less(self.amount - spent)),
        }
    }
}
