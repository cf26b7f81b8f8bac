//! Charges in advance: held until the truth is known.
//!
//! A hold is charged when it is made. Settling it charges the difference or gives it back,
//! cancelling gives all back, and one that is left alone keeps its charge. What is remembered of
//! holds is bounded by its weight: at the bound the one that expires first is forgotten, and its
//! charge stays.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::rules::{Adjustment, Decision, Value};
use tollgate::{Action, Clock, StoreError, Time, Verdict};

use super::{Asked, Brought, Engine};
use crate::telemetry::DoorName;
use crate::unguessable::Unguessable;

/// What all holds may weigh, in bytes.
const HEAVIEST: usize = 64 << 20;
/// How long a hold stays open unless somebody says.
pub(crate) const USUAL: Duration = Duration::from_secs(600);
/// What a hold weighs beside its texts: its decision, and its places in the tables.
const ITSELF: usize = 1 << 10;

/// Names a hold. Nobody can guess another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HoldId(Unguessable);

impl HoldId {
    fn new() -> Result<HoldId, StoreError> {
        Unguessable::new().map(HoldId).map_err(|error| {
            StoreError::new("the system has no randomness to name a hold").because(error)
        })
    }

    /// Names the holder of a place on a concurrency limit. Small numbers are those of decisions.
    fn lease(self) -> u64 {
        self.0.0 as u64 | 1 << 63
    }

    pub(crate) fn parse(text: &str) -> Option<HoldId> {
        Unguessable::parse(text).map(HoldId)
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was charged.
#[derive(Debug)]
enum Charged {
    ByRules(Box<Asked<'static>>, Box<Decision>),
    ByLimit(Box<[u8]>, Arc<Brought>),
}

#[derive(Debug)]
struct Hold {
    charged: Charged,
    amount: u64,
    since: Time,
    expires: Time,
    weight: usize,
}

/// Every open hold.
#[derive(Debug)]
pub(super) struct Holds {
    heaviest: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    by_id: HashMap<HoldId, Hold>,
    by_expiry: BTreeSet<(Time, HoldId)>,
    weight: usize,
}

impl Default for Holds {
    fn default() -> Holds {
        Holds { heaviest: HEAVIEST, open: Mutex::default() }
    }
}

impl Holds {
    fn keep(&self, id: HoldId, hold: Hold) {
        let mut open = self.open.lock();
        open.weight += hold.weight;
        open.by_expiry.insert((hold.expires, id));
        open.by_id.insert(id, hold);
        while open.weight > self.heaviest {
            let Some((_, first)) = open.by_expiry.pop_first() else { break };
            if let Some(forgotten) = open.by_id.remove(&first) {
                open.weight -= forgotten.weight;
            }
        }
    }

    fn take(&self, id: HoldId) -> Option<Hold> {
        let mut open = self.open.lock();
        let hold = open.by_id.remove(&id)?;
        open.by_expiry.remove(&(hold.expires, id));
        open.weight -= hold.weight;
        Some(hold)
    }
}

/// What turned out, of what was held.
#[derive(Debug)]
pub(crate) enum Truth {
    /// So much was spent.
    Spent(u64),
    /// What rules find it out by, as attributes.
    Outcome(Vec<(String, Value<'static>)>),
    /// Nothing ever was.
    Cancelled,
}

/// What became of a hold.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is done; how its limits stand now.
    ByRules(Box<Decision>),
    /// The same for a limit that the caller brought along.
    ByLimit(Arc<Brought>, Verdict),
    /// It had expired: what it was charged stays, and what it spent beyond that is charged too.
    Expired,
    /// It has no rules that could make anything of an outcome. It is still open.
    WithoutRules,
    /// There is no such hold: it never was, is done, or was forgotten.
    Unknown,
}

impl Engine {
    /// Charges in advance by rules. There is a hold if it was allowed.
    pub(crate) async fn reserve(
        &self,
        door: DoorName,
        asked: Asked<'_>,
        amount: Option<u64>,
        open: Option<Duration>,
    ) -> Result<(Decision, Option<(HoldId, Duration)>), StoreError> {
        let id = HoldId::new()?;
        let amount = amount.unwrap_or(1);
        let decision = self.check(door, &asked.reservation(amount, open), amount).await;
        if !decision.allowed {
            return Ok((decision, None));
        }
        let open = open.or(decision.expire()).unwrap_or(USUAL);
        let weight = ITSELF + asked.weight();
        let charged = Charged::ByRules(Box::new(asked.into_owned()), Box::new(decision.clone()));
        self.keep(id, charged, amount, open, weight);
        Ok((decision, Some((id, open))))
    }

    /// The same by a limit that the caller brought along.
    pub(crate) async fn reserve_limit(
        &self,
        door: DoorName,
        key: &[u8],
        brought: Arc<Brought>,
        amount: u64,
        open: Duration,
    ) -> Result<(Verdict, Option<HoldId>), StoreError> {
        let id = HoldId::new()?;
        let verdict = self.limit_as(door, key, &brought, amount, id.lease()).await?;
        if !verdict.allowed {
            return Ok((verdict, None));
        }
        let weight = ITSELF + key.len();
        self.keep(id, Charged::ByLimit(key.into(), brought), amount, open, weight);
        Ok((verdict, Some(id)))
    }

    fn keep(&self, id: HoldId, charged: Charged, amount: u64, open: Duration, weight: usize) {
        let since = self.clock().now();
        let expires = since + open.into();
        self.0.holds.keep(id, Hold { charged, amount, since, expires, weight });
    }

    /// Charges what was really spent, or gives all back if nothing ever was. A hold is settled
    /// once.
    pub(crate) async fn settle(&self, id: HoldId, truth: Truth) -> Result<Outcome, StoreError> {
        let Some(hold) = self.0.holds.take(id) else { return Ok(Outcome::Unknown) };
        let expired = self.clock().now() >= hold.expires;
        let outcome = match (&hold.charged, truth) {
            (_, Truth::Cancelled) if expired => Outcome::Expired,
            (Charged::ByRules(asked, decision), truth) => {
                self.settle_rules(&hold, asked, decision, truth).await?
            }
            (Charged::ByLimit(..), Truth::Outcome(_)) => {
                self.0.holds.keep(id, hold);
                return Ok(Outcome::WithoutRules);
            }
            (Charged::ByLimit(..), Truth::Spent(spent)) if expired && spent <= hold.amount => {
                Outcome::Expired
            }
            (Charged::ByLimit(key, brought), truth) => {
                let spent = if let Truth::Spent(spent) = truth { spent } else { 0 };
                if let Err(error) = self.settle_limit(&hold, id, key, brought, spent).await {
                    if error.kind().did_nothing() {
                        // Whoever settles it may try again.
                        self.0.holds.keep(id, hold);
                    }
                    return Err(error);
                }
                let verdict = self.on(Action::Peek, key, brought, 0).await?;
                Outcome::ByLimit(brought.clone(), verdict)
            }
        };
        Ok(if expired { Outcome::Expired } else { outcome })
    }

    async fn settle_rules(
        &self,
        hold: &Hold,
        asked: &Asked<'_>,
        decision: &Decision,
        truth: Truth,
    ) -> Result<Outcome, StoreError> {
        let limiter = self.limiter();
        // Places first: they are free even if the store then fails.
        limiter.done(decision, hold.took(self.clock()), false).await?;
        let request = asked.request(hold.amount);
        if decision.place().is_none() {
            // Domains written for Envoy remember nothing of a decision.
            let adjustment = match truth {
                Truth::Spent(spent) => Adjustment::Settle { held: hold.amount, spent },
                Truth::Outcome(_) => Adjustment::Peek,
                Truth::Cancelled => Adjustment::Cancel(hold.amount),
            };
            let settled = self.adjust(&request, adjustment).await?;
            return Ok(Outcome::ByRules(Box::new(settled)));
        }
        match &truth {
            Truth::Spent(spent) => limiter.spent(decision, &request, *spent).await?,
            Truth::Outcome(fields) => {
                let outcome = fields.iter().fold(request.clone(), |outcome, (name, value)| {
                    outcome.attribute(name, value.clone())
                });
                limiter.report(decision, &outcome).await?;
            }
            Truth::Cancelled => limiter.give_back(decision).await?,
        }
        let settled = self.adjust(&request, Adjustment::Peek).await?;
        Ok(Outcome::ByRules(Box::new(settled)))
    }

    async fn settle_limit(
        &self,
        hold: &Hold,
        id: HoldId,
        key: &[u8],
        brought: &Arc<Brought>,
        spent: u64,
    ) -> Result<(), StoreError> {
        let lease = id.lease();
        let rtt = hold.took(self.clock()).into();
        self.on_as(Action::Release { rtt, dropped: false }, key, brought, 0, lease).await?;
        let (action, amount) = match spent > hold.amount {
            true => (Action::Spend, spent - hold.amount),
            false => (Action::Refund, hold.amount - spent),
        };
        if amount > 0 {
            self.on_as(action, key, brought, amount, lease).await?;
        }
        Ok(())
    }
}

impl Hold {
    fn took(&self, clock: &Clock) -> Duration {
        clock.now().since(self.since).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(expires: u64) -> Hold {
        let brought = Arc::new(Brought::new("1/s".parse().unwrap()));
        let charged = Charged::ByLimit(b"ann".as_slice().into(), brought);
        let time = Time::from_nanos;
        Hold { charged, amount: 1, since: time(0), expires: time(expires), weight: 10 }
    }

    #[test]
    fn at_the_bound_the_first_to_expire_is_forgotten() {
        let holds = Holds { heaviest: 30, open: Mutex::default() };
        let id = |number| HoldId(Unguessable(number));
        for (number, expires) in [(1, 50), (2, 20), (3, 90), (4, 70)] {
            holds.keep(id(number), hold(expires));
        }
        assert!(holds.take(id(2)).is_none());
        assert!(holds.take(id(1)).is_some());
        assert!(holds.take(id(1)).is_none(), "only once");
        assert!(holds.take(id(3)).is_some() && holds.take(id(4)).is_some());
        let open = holds.open.lock();
        assert_eq!((open.weight, open.by_id.len(), open.by_expiry.len()), (0, 0, 0));
    }

    #[test]
    fn a_name_reads_back() {
        let id = HoldId::new().unwrap();
        assert_eq!(HoldId::parse(&id.to_string()), Some(id));
        for wrong in ["", "12", "+0000000000000000000000000000001", &"g".repeat(32)] {
            assert_eq!(HoldId::parse(wrong), None);
        }
    }
}
