//! `then: ban`: refuses a key after too many denials, for longer each time.
//!
//! A ban is a debt on a meter that refills one unit per millisecond: a ban spends its length at
//! once, and a check of cost zero is refused until the debt is paid off. So any store decides and
//! shares a ban in the same call as the limits.
//!
//! Three more counters of the key lead to a ban: the denials within a time; a gate, so that
//! concurrent denials ban once; and the number of bans, which selects the rung of the ladder.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Retry, Span, Verdict};

use crate::actions::ladder_ban_list::{BanName, LadderBan};
use crate::compile::compiler::bind;
use crate::compile::domain::BoundLimit;
use crate::compile::policy::Ban;
use crate::decide::decide_request::MatchedRequest;
use crate::decide::decision::{Decision, Reason};
use crate::decide::limiter::LimiterState;
use crate::matching::rule_checks::RuleCheck;
use tollgate::StoreError;
use tollgate::limit::InvalidLimit;
use tollgate::{Action, Store, StoreCall};
use tollgate::{Check, Consistency, Key, Limit};

/// When one ban is forgotten: after a day, or after twice the sum of all rungs if that is longer,
/// so that a key that is banned repeatedly stays on the last rung.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(86_400);
/// The longest time between denials that count as concurrent.
const GATE: Duration = Duration::from_secs(5);
/// The largest number of denials that are logged individually, which is exact.
const REMEMBERED: u64 = 256;

/// The counters behind a ban.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    rungs: Vec<Duration>,
    /// Allows one denial less than leads to a ban; none if the first denial bans.
    denials: Option<BoundLimit>,
    gate: BoundLimit,
    /// The number of recent bans.
    ban_count: BoundLimit,
    /// A meter whose debt is the rest of the ban, in milliseconds.
    pub(crate) ban: BoundLimit,
}

impl Ladder {
    /// Creates the ban counters of a rule.
    pub(crate) fn new(ban: &Ban, domain: &str, bucket: &str) -> Result<Ladder, InvalidLimit> {
        let bound = |limit: Limit, what: &str| bind(limit, domain, &format!("{bucket} {what}"));
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
            denials: denials.map(|limit| bound(limit, "denials")),
            gate: bound(Limit::new(1, whole(shortest.min(GATE)))?, "gate"),
            ban_count: bound(Limit::new(1, whole(forgotten_after))?.burst(bans)?, "climbed"),
            ban: bound(Limit::new(1_000, Duration::from_secs(1))?.burst(1)?, "ban"),
        })
    }

    /// Returns all counters; resetting them forgets everything about a key.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = &BoundLimit> {
        self.denials.iter().chain([&self.gate, &self.ban_count, &self.ban])
    }

    /// Returns the rung of a ban, starting at 1, from the verdict of the ban counter.
    fn rung(&self, ban_count: &Verdict) -> usize {
        let left = usize::try_from(ban_count.remaining).unwrap_or(usize::MAX);
        self.rungs.len().saturating_sub(left).clamp(1, self.rungs.len())
    }
}

/// Rounds a duration up to whole milliseconds, as limits require.
fn whole(length: Duration) -> Duration {
    Duration::from_millis(millis(length))
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the consistency of a ban. Where the limits are decided in this process, the ban must not
/// add a call to the store.
pub(crate) fn consistency(of_rule: Consistency) -> Consistency {
    match of_rule {
        Consistency::Strict => Consistency::Strict,
        Consistency::Leased | Consistency::Synced => Consistency::Synced,
    }
}

/// The consequence of a denial.
#[derive(Clone, Copy, Debug)]
struct BanResult {
    remaining: Span,
    /// The rung, if this denial started the ban.
    new_rung: Option<usize>,
}

impl<S: Store> MatchedRequest<'_, '_, S> {
    /// Counts a denial for rules that ban, and turns the decision into a ban where the denials
    /// suffice. A failing store bans no key.
    pub(crate) async fn apply_ladder(&self, limiter: &LimiterState<S>, decision: &mut Decision) {
        if decision.reason != Reason::OverLimit || decision.without_store.is_some() {
            return;
        }
        for rule_check in &self.checks.rule_checks {
            let Some(ladder) = &self.domain.compiled.rules[rule_check.rule as usize].ladder else {
                continue;
            };
            let refuses = decision.limits.iter().any(|limit| {
                let in_time = matches!(limit.verdict.retry, Retry::After(_) | Retry::Now);
                limit.rule == rule_check.rule && limit.enforced && !limit.verdict.allowed && in_time
            });
            if refuses && let Ok(Some(banned)) = self.count_denial(rule_check, ladder).await {
                self.write_ban(decision, rule_check, banned.remaining);
                if let Some(rung) = banned.new_rung {
                    decision.starts_ban = true;
                    let date = limiter.date();
                    let ban = self.ladder_ban(rule_check, rung, date + banned.remaining);
                    limiter.ban_list.add(&limiter.store, ban, date).await;
                }
            }
        }
    }

    /// Turns a decision into a ban that lasts as long as the ban or the limit, whichever is longer.
    pub(crate) fn write_ban(
        &self,
        decision: &mut Decision,
        rule_check: &RuleCheck,
        remaining: Span,
    ) {
        let is_never = decision.reason == Reason::NeverFits;
        let before = decision.retry_after.filter(|_| !decision.allowed);
        decision.allowed = false;
        decision.reason = Reason::Banned;
        decision.rule = Some(rule_check.rule);
        decision.code = self.domain.compiled.rules[rule_check.rule as usize].then.status();
        decision.retry_after =
            (!is_never).then(|| before.unwrap_or_default().max(Duration::from(remaining)));
        decision.wait = Duration::ZERO;
        decision.held = None;
        decision.key = Some(self.checks.keys[rule_check.key.clone()].into());
    }

    /// Returns the refusal of a key with a ban that this node knows, while the store does not
    /// answer: `on_error` must not end a ban early.
    pub(crate) fn known_ban(&self) -> Option<Decision> {
        let date = self.clock.date(self.now);
        for rule_check in self.checks.rule_checks.iter().filter(|check| check.enforced) {
            let rule = &self.domain.compiled.rules[rule_check.rule as usize];
            if rule.ladder.is_none() {
                continue;
            }
            if let Some(until) = self.ban_list.end(&self.ban_name(rule_check), date) {
                let compiled = Some(self.domain.compiled.clone());
                let mut decision = Decision::plain(false, Reason::Banned, 429, None, compiled);
                self.write_ban(&mut decision, rule_check, until.since(date));
                decision.without_store = Some(rule.on_error);
                return Some(decision);
            }
        }
        None
    }

    /// Notes a ban that a shared store reported, for the time when the store does not answer.
    pub(crate) fn note_ban(&self, rule_check: &RuleCheck, remaining: Span) {
        if self.store.is_shared() {
            let date = self.clock.date(self.now);
            self.ban_list.note(self.ban_name(rule_check), date + remaining, date);
        }
    }

    fn ban_name(&self, rule_check: &RuleCheck) -> BanName {
        let rule = &self.domain.compiled.rules[rule_check.rule as usize];
        (self.domain.name.clone(), rule.name.clone(), self.checks.key(rule_check).into())
    }

    fn ladder_ban(
        &self,
        rule_check: &RuleCheck,
        rung: usize,
        until: tollgate_core::Time,
    ) -> LadderBan {
        let rules = &self.domain.compiled;
        LadderBan {
            domain: self.domain.name.clone(),
            rule: rules.rules[rule_check.rule as usize].name.clone(),
            key: self.checks.key(rule_check).into(),
            rung: rung as u32,
            until,
        }
    }

    /// Counts one denial and returns its consequence.
    async fn count_denial(
        &self,
        rule_check: &RuleCheck,
        ladder: &Ladder,
    ) -> Result<Option<BanResult>, StoreError> {
        let take = Action::Take { max_wait: Span::ZERO };
        if let Some(denials) = &ladder.denials
            && self.run_ladder(take, rule_check, &[(denials, 1)]).await?[0].allowed
        {
            return Ok(None);
        }
        let gate =
            self.run_ladder(take, rule_check, &[(&ladder.gate, 1), (&ladder.ban, 0)]).await?;
        match (&gate[0], &gate[1]) {
            // The key was banned by another node.
            (_, ban) if !ban.allowed => {
                let remaining = ban.retry_after().unwrap_or(Span::ZERO);
                return Ok(Some(BanResult { remaining, new_rung: None }));
            }
            // A concurrent request is about to ban the key.
            (gate, _) if !gate.allowed => return Ok(None),
            _ => {}
        }
        let rung =
            ladder.rung(&self.run_ladder(take, rule_check, &[(&ladder.ban_count, 1)]).await?[0]);
        let length = millis(ladder.rungs[rung - 1]);
        // The remaining capacity of the meter is spent first.
        let debt = length.saturating_add(gate[1].remaining);
        self.run_ladder(Action::Spend, rule_check, &[(&ladder.ban, debt)]).await?;
        if let Some(denials) = &ladder.denials {
            // The next ban needs as many denials again. A failure to reset them is harmless.
            let _ = self.run_ladder(Action::Reset, rule_check, &[(denials, 0)]).await;
        }
        Ok(Some(BanResult { remaining: Span::from_millis(length), new_rung: Some(rung) }))
    }

    async fn run_ladder(
        &self,
        action: Action,
        rule_check: &RuleCheck,
        bounds: &[(&BoundLimit, u64)],
    ) -> Result<tollgate::Verdicts, StoreError> {
        let key = Key::Bytes(&self.checks.keys[rule_check.key.clone()]);
        let rule = &self.domain.compiled.rules[rule_check.rule as usize];
        let consistency = consistency(rule.consistency);
        let checks: SmallVec<[Check<'_>; 2]> = bounds
            .iter()
            .map(|(bound, cost)| ladder_check(bound, key, *cost, consistency))
            .collect();
        self.store.run(StoreCall { action, checks: &checks }).await
    }
}

/// Returns a check of one of the counters behind a ban.
pub(crate) fn ladder_check<'c>(
    bound: &'c BoundLimit,
    key: Key<'c>,
    cost: u64,
    consistency: Consistency,
) -> Check<'c> {
    Check { consistency, ..Check::new(bound.counter, key, &bound.limit, cost) }
}
