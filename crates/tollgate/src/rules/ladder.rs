//! `then: ban`: who keeps hammering is shut out, for longer and longer.
//!
//! A ban is a debt of time. On a meter that pays back one unit a millisecond the length of the ban
//! is spent at once; a request that asks it for nothing at all is refused exactly until that is paid
//! back. So a ban is decided in the same call as the limits, by any store, and shared like them.
//!
//! Three more counters of the same key lead to it: refusals, of which so many within a time are
//! enough; a gate, so that requests refused at the same moment ban once; and how many bans there
//! were, which says the rung of the ladder.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Retry, Span, Verdict};

use super::ban_book::LadderBan;
use super::compile::bind;
use super::compiled::Bound;
use super::decide::Asked;
use super::decision::{Decision, Reason};
use super::demand::Demand;
use super::limiter::Shared;
use super::policy::Ban;
use crate::limit::InvalidLimit;
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::{Check, Consistency, Key, Limit};

/// One ban is forgotten a day later, or after twice the time all bans of the ladder take together
/// if that is longer: whoever is banned again and again stays at the top.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(86_400);
/// Requests that are refused at the same moment are no further apart than this.
const GATE: Duration = Duration::from_secs(5);
/// Up to so many refusals each is remembered with its time, which is exact.
const REMEMBERED: u64 = 256;

/// The counters behind a ban.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    rungs: Vec<Duration>,
    /// Holds one refusal less than is enough; none if the first one is.
    denials: Option<Bound>,
    gate: Bound,
    /// How many bans there were lately.
    climbed: Bound,
    /// Owes what is left of the ban, in milliseconds.
    pub(crate) ban: Bound,
}

impl Ladder {
    /// The counters of a rule's bans, beside those of its bucket.
    pub(crate) fn new(ban: &Ban, domain: &str, bucket: &str) -> Result<Ladder, InvalidLimit> {
        let of = |limit: Limit, what: &str| bind(limit, domain, &format!("{bucket} {what}"));
        let denials = match ban.after {
            0 | 1 => None,
            after @ ..=REMEMBERED => Some(Limit::new(after - 1, whole(ban.within))?.log()?),
            after => Some(Limit::new(after - 1, whole(ban.within))?.sliding()?),
        };
        let sum = ban.ladder.iter().fold(Duration::ZERO, |sum, rung| sum.saturating_add(*rung));
        let forgotten_after = FORGOTTEN_AFTER.max(sum.saturating_mul(2));
        let shortest = ban.ladder.iter().min().copied().unwrap_or(GATE);
        let bans = ban.ladder.len() as u64;
        Ok(Ladder {
            rungs: ban.ladder.clone(),
            denials: denials.map(|limit| of(limit, "denials")),
            gate: of(Limit::new(1, whole(shortest.min(GATE)))?, "gate"),
            climbed: of(Limit::new(1, whole(forgotten_after))?.burst(bans)?, "climbed"),
            ban: of(Limit::new(1_000, Duration::from_secs(1))?.burst(1)?, "ban"),
        })
    }

    /// All its counters: without them, nothing is known of a key.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = &Bound> {
        self.denials.iter().chain([&self.gate, &self.climbed, &self.ban])
    }

    /// How far up the ladder a ban is, given what is left of its steps: 1 is the first.
    fn rung(&self, climbed: &Verdict) -> usize {
        let left = usize::try_from(climbed.remaining).unwrap_or(usize::MAX);
        self.rungs.len().saturating_sub(left).clamp(1, self.rungs.len())
    }
}

/// A length that a limit can have: in whole milliseconds.
fn whole(length: Duration) -> Duration {
    Duration::from_millis(millis(length))
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// How closely nodes agree on a ban: what is decided in this process must not become a question to
/// the store because of it.
pub(super) fn consistency(of_rule: Consistency) -> Consistency {
    match of_rule {
        Consistency::Strict => Consistency::Strict,
        Consistency::Leased | Consistency::Synced => Consistency::Synced,
    }
}

/// What a refusal led to.
#[derive(Clone, Copy, Debug)]
struct Banned {
    rest: Span,
    /// The rung, if this refusal was the last that was needed.
    begun: Option<usize>,
}

impl<S: Store> Asked<'_, '_, S> {
    /// A request was refused: rules that ban count that, and whoever was refused often enough is
    /// answered as banned. A store that fails bans nobody.
    pub(super) async fn climb(&self, limiter: &Shared<S>, decision: &mut Decision) {
        if decision.reason != Reason::OverLimit || decision.without_store.is_some() {
            return;
        }
        for demand in &self.demands.demands {
            let Some(ladder) = &self.domain.compiled.rules[demand.rule as usize].ladder else {
                continue;
            };
            let refuses = decision.limits.iter().any(|limit| {
                let in_time = matches!(limit.verdict.retry, Retry::After(_) | Retry::Now);
                limit.rule == demand.rule && limit.enforced && !limit.verdict.allowed && in_time
            });
            if refuses && let Ok(Some(banned)) = self.denied(demand, ladder).await {
                self.tell(decision, demand, banned.rest);
                if let Some(rung) = banned.begun {
                    decision.starts_ban = true;
                    let until = limiter.clock.now() + banned.rest;
                    let given = self.given(demand, rung, until);
                    limiter.book.add(&limiter.store, given, limiter.clock.now()).await;
                }
            }
        }
    }

    /// The decision is a ban: it lasts as long as the ban, or as the limit needs if that is longer.
    pub(super) fn tell(&self, decision: &mut Decision, demand: &Demand, rest: Span) {
        let is_never = decision.reason == Reason::NeverFits;
        let before = decision.retry_after.filter(|_| !decision.allowed);
        decision.allowed = false;
        decision.reason = Reason::Banned;
        decision.rule = Some(demand.rule);
        decision.code = self.domain.compiled.rules[demand.rule as usize].then.status();
        decision.retry_after =
            (!is_never).then(|| before.unwrap_or_default().max(Duration::from(rest)));
        decision.wait = Duration::ZERO;
        decision.held = None;
        decision.key = Some(self.demands.keys[demand.key.clone()].into());
    }

    fn given(&self, demand: &Demand, rung: usize, until: tollgate_core::Time) -> LadderBan {
        let rules = &self.domain.compiled;
        LadderBan {
            domain: self.domain.name.clone(),
            rule: rules.rules[demand.rule as usize].name.clone(),
            key: self.demands.key(demand).into(),
            rung: rung as u32,
            until,
        }
    }

    /// One refusal more; what it led to.
    async fn denied(&self, demand: &Demand, ladder: &Ladder) -> Result<Option<Banned>, StoreError> {
        let take = Action::Take { max_wait: Span::ZERO };
        if let Some(denials) = &ladder.denials
            && self.on(take, demand, &[(denials, 1)]).await?[0].allowed
        {
            return Ok(None);
        }
        let gate = self.on(take, demand, &[(&ladder.gate, 1), (&ladder.ban, 0)]).await?;
        match (&gate[0], &gate[1]) {
            // It is banned already, and this node did not know.
            (_, ban) if !ban.allowed => {
                let rest = ban.retry_after().unwrap_or(Span::ZERO);
                return Ok(Some(Banned { rest, begun: None }));
            }
            // Somebody else is about to ban it.
            (gate, _) if !gate.allowed => return Ok(None),
            _ => {}
        }
        let rung = ladder.rung(&self.on(take, demand, &[(&ladder.climbed, 1)]).await?[0]);
        let length = millis(ladder.rungs[rung - 1]);
        // What the meter holds comes first.
        let debt = length.saturating_add(gate[1].remaining);
        self.on(Action::Spend, demand, &[(&ladder.ban, debt)]).await?;
        if let Some(denials) = &ladder.denials {
            // The next ban needs as many again. It is no matter if they are not forgotten.
            let _ = self.on(Action::Reset, demand, &[(denials, 0)]).await;
        }
        Ok(Some(Banned { rest: Span::from_millis(length), begun: Some(rung) }))
    }

    async fn on(
        &self,
        action: Action,
        demand: &Demand,
        bounds: &[(&Bound, u64)],
    ) -> Result<crate::Verdicts, StoreError> {
        let key = Key::Bytes(&self.demands.keys[demand.key.clone()]);
        let rule = &self.domain.compiled.rules[demand.rule as usize];
        let consistency = consistency(rule.consistency);
        let checks: SmallVec<[Check<'_>; 2]> =
            bounds.iter().map(|(bound, cost)| checked(bound, key, *cost, consistency)).collect();
        self.store.run(Call { action, checks: &checks }).await
    }
}

/// A check of one of the counters behind a ban.
pub(super) fn checked<'c>(
    bound: &'c Bound,
    key: Key<'c>,
    cost: u64,
    consistency: Consistency,
) -> Check<'c> {
    Check { consistency, ..Check::new(bound.bucket, key, &bound.limit, cost) }
}
