//! An admission as data, so that a reservation can be settled after a restart.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::{Span, Time};

use crate::compile::domain::{BoundLimit, CompiledDomain};
use crate::decide::admission::Admission;
use crate::decide::held_charges::{HeldCharge, HeldCharges};
use crate::decide::limiter::RuleLimiter;
use crate::matching::request::OutcomeTracking;
use crate::matching::rule_checks::LimitCheckKind;
use tollgate::{CounterId, Store};

/// The charges of an admission as data, which [`RuleLimiter::restore_admission`] turns into one.
///
/// Rules are named, so that the rules of the restored admission may differ from those of the saved
/// one.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter, SavedAdmission};
/// # futures_lite(async {
/// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 10/h }]".parse().unwrap());
/// let request = Request::empty().cost(4).to_be_settled(None);
/// let admission = limiter.decide_now(&request).take_admission().unwrap();
/// let saved: SavedAdmission = admission.save().unwrap();
/// drop(admission);
/// let restored = limiter.restore_admission(saved).await.unwrap();
/// restored.cancel().await.unwrap();
/// let decision = limiter.decide_now(&Request::empty());
/// assert_eq!(decision.tightest().unwrap().verdict.remaining, 9);
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedAdmission {
    domain: String,
    lease: u64,
    since_ns: u64,
    open: Option<Duration>,
    charges: Vec<SavedCharge>,
}

/// The charge of one limit as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedCharge {
    rule: String,
    limit: String,
    counter: u64,
    key: Vec<u8>,
    cost: u64,
    charged: bool,
    kind: SavedCheckKind,
    reset_after_ns: u64,
}

/// The purpose of a limit check as data.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedCheckKind {
    Limit,
    DistinctSeen,
    DistinctCount,
    Ban,
    Dedupe,
}

impl SavedAdmission {
    /// The total length of the charged keys, in bytes, to account for the memory of the admission.
    pub fn key_bytes(&self) -> usize {
        self.charges.iter().map(|charge| charge.key.len()).sum()
    }
}

impl From<LimitCheckKind> for SavedCheckKind {
    fn from(kind: LimitCheckKind) -> SavedCheckKind {
        match kind {
            LimitCheckKind::Limit => SavedCheckKind::Limit,
            LimitCheckKind::DistinctSeen => SavedCheckKind::DistinctSeen,
            LimitCheckKind::DistinctCount => SavedCheckKind::DistinctCount,
            LimitCheckKind::Ban => SavedCheckKind::Ban,
            LimitCheckKind::Dedupe => SavedCheckKind::Dedupe,
        }
    }
}

impl From<SavedCheckKind> for LimitCheckKind {
    fn from(kind: SavedCheckKind) -> LimitCheckKind {
        match kind {
            SavedCheckKind::Limit => LimitCheckKind::Limit,
            SavedCheckKind::DistinctSeen => LimitCheckKind::DistinctSeen,
            SavedCheckKind::DistinctCount => LimitCheckKind::DistinctCount,
            SavedCheckKind::Ban => LimitCheckKind::Ban,
            SavedCheckKind::Dedupe => LimitCheckKind::Dedupe,
        }
    }
}

impl Admission {
    /// Returns the charges of a reservation as data; none if they are not in the store.
    pub fn save(&self) -> Option<SavedAdmission> {
        let held = self.held();
        (!held.is_local).then(|| SavedAdmission {
            domain: held.rules.domain.to_string(),
            lease: held.lease(),
            since_ns: held.since.as_nanos(),
            open: held.open,
            charges: held.charges.iter().map(|charge| save_charge(&held.rules, charge)).collect(),
        })
    }
}

fn save_charge(rules: &CompiledDomain, charge: &HeldCharge) -> SavedCharge {
    SavedCharge {
        rule: rules.rules[charge.rule as usize].name.to_string(),
        limit: charge.bound.limit.to_string(),
        counter: charge.bound.counter.number(),
        key: charge.key.to_vec(),
        cost: charge.cost,
        charged: charge.charged,
        kind: charge.kind.into(),
        reset_after_ns: charge.reset_after.as_nanos(),
    }
}

/// Returns a charge under the rule of its name; none if there is no such rule any more.
fn restore_charge(rules: &CompiledDomain, saved: SavedCharge) -> Option<HeldCharge> {
    Some(HeldCharge {
        rule: *rules.by_name.get(&*saved.rule)?,
        bound: BoundLimit {
            limit: saved.limit.parse().ok()?,
            counter: CounterId::new(saved.counter),
        },
        key: saved.key.into(),
        cost: saved.cost,
        charged: saved.charged,
        kind: saved.kind.into(),
        reset_after: Span::from_nanos(saved.reset_after_ns),
    })
}

impl<S: Store + 'static> RuleLimiter<S> {
    /// Restores the admission of a reservation, and takes its permits again.
    ///
    /// Charges of rules that no longer exist stay as they are. Returns `None` if the domain does not
    /// exist either.
    pub async fn restore_admission(&self, saved: SavedAdmission) -> Option<Admission> {
        let rules = Arc::clone(&self.0.current.load().rules.domain(&saved.domain)?.compiled);
        let charges = saved.charges.into_iter();
        let charges = charges.filter_map(|charge| restore_charge(&rules, charge)).collect();
        let (since, tracking) =
            (Time::from_nanos(saved.since_ns), OutcomeTracking::Always(saved.open));
        let held = HeldCharges::new(saved.lease, rules, charges, since, tracking, false);
        // A permit that does not fit any more is lost; the rest can still be settled.
        let _ = held.retake(&self.0).await;
        Some(Admission::new(&self.0, held))
    }
}
