//! From a request to what its limits say: match, and ask the store.

use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tollgate_core::{Span, Time, Verdict};

use super::bans;
use super::compiled::Domain;
use super::decision::{Decision, Reason};
use super::dedupe::remembers;
use super::demand::{self, Demands, Line, LineKind, Matched};
use super::facts::Facts;
use super::fair;
use super::installed::Installed;
use super::limiter::Shared;
use super::local::Share;
use super::policy::Unmatched;
use super::room::Turn;
use super::{Request, ask_envoy};
use crate::counters::new_lease;
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::{Check, Verdicts};

/// Whether limits are charged, or only asked what they would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charging {
    Real,
    Dry,
}

/// Decides a request. Starts over if the rules are replaced on the way. Decisions are large: they
/// are written where they will be read.
pub(crate) async fn decide<S: Store>(
    limiter: &Shared<S>,
    request: &Request<'_>,
    charging: Charging,
    turn: Turn,
    decision: &mut Decision,
) {
    loop {
        let installed = limiter.current.load_full();
        if let Some(tree) = installed.rules.tree_of(request) {
            if installed.rules.is_tree_off(tree, limiter.clock.now()) {
                *decision = Decision::none();
                return;
            }
            *decision = ask_envoy::decide(limiter, tree, request, charging).await;
            return;
        }
        let Some(domain) = installed.rules.domain_of(request) else {
            *decision = Decision::none();
            return;
        };
        let now = limiter.clock.now();
        let rules = &domain.compiled;
        let mut demands = Demands::none();
        let matched = {
            let facts = Facts::new(request, &rules.trust);
            demand::find(domain, &facts, now, &mut demands)
        };
        demands.turn = turn;
        let (allowed, reason, code, rule) = match matched {
            Matched::Nothing => match rules.unmatched {
                Unmatched::Allow => (true, Reason::Unmatched, 200, None),
                Unmatched::Deny => (false, Reason::Unmatched, 503, None),
            },
            Matched::SwitchedOff => (true, Reason::Unmatched, 200, None),
            Matched::Allowed { rule } => (true, Reason::AllowedByRule, 200, Some(rule)),
            Matched::Denied { rule } => {
                let code = rules.rules[rule as usize].then.status();
                (false, Reason::DeniedByRule, code, Some(rule))
            }
            Matched::KeyMissing { rule } => {
                let code = rules.rules[rule as usize].then.status();
                (false, Reason::KeyMissing, code, Some(rule))
            }
            Matched::Limited => {
                if !domain.bans.is_empty()
                    && let Some(refused) = bans::refuse(domain, &demands, now)
                {
                    *decision = refused;
                    return;
                }
                if turn.is_behind_others()
                    && limiter.rooms.are_in_use()
                    && let Some(refused) = limiter.rooms.gate(domain, &demands)
                {
                    *decision = refused;
                    return;
                }
                if demands.is_fair {
                    // In a box of its own kind: what is rare must weigh neither on every decision nor
                    // on the type of its future.
                    let decided: Pin<Box<dyn Future<Output = bool> + Send + '_>> =
                        Box::pin(fair::decide(
                            limiter,
                            &installed,
                            domain,
                            &mut demands,
                            now,
                            charging,
                            decision,
                        ));
                    if decided.await {
                        return;
                    }
                    continue;
                }
                let demands = &demands;
                let asked = Asked::new(limiter, &installed, domain, demands, now, charging);
                if asked.decide(limiter, decision).await {
                    return;
                }
                continue;
            }
        };
        *decision = Decision::plain(allowed, reason, code, rule, Some(rules.clone()));
        return;
    }
}

/// A request whose limits are to be asked.
pub(super) struct Asked<'a, 'd, S> {
    pub(super) store: &'a S,
    pub(super) current: &'a ArcSwap<Installed>,
    pub(super) installed: &'a Arc<Installed>,
    pub(super) domain: &'a Domain,
    pub(super) demands: &'a Demands<'d>,
    /// The shares its lines are about; none where they are about whole limits.
    pub(super) shares: &'a [Arc<Share>],
    pub(super) now: Time,
    pub(super) charging: Charging,
}

/// Lines that were asked, and what each said.
pub(super) type Answers = SmallVec<[(usize, Verdict); 6]>;

type Checks<'c> = SmallVec<[Check<'c>; 6]>;

impl<'a, 'd, S: Store> Asked<'a, 'd, S> {
    /// A request that the limiter's store is to decide.
    pub(super) fn new(
        limiter: &'a Shared<S>,
        installed: &'a Arc<Installed>,
        domain: &'a Domain,
        demands: &'a Demands<'d>,
        now: Time,
        charging: Charging,
    ) -> Asked<'a, 'd, S> {
        let (store, current, shares) = (&limiter.store, &limiter.current, &[]);
        Asked { store, current, installed, domain, demands, shares, now, charging }
    }

    /// Whether it was decided: not if the rules were replaced meanwhile.
    pub(super) async fn decide(&self, limiter: &Shared<S>, decision: &mut Decision) -> bool {
        let lease = new_lease();
        // In a box: what is rare must not weigh on every decision.
        let decided = match self.demands.is_simple && limiter.owing().is_none() {
            true => match self.ask_once(lease).await {
                Ok(Some(verdicts)) => {
                    self.write_decision(lease, (0..).zip(&verdicts), decision);
                    if self.demands.has_asides && !decision.allowed {
                        Box::pin(self.refused(limiter, decision)).await;
                    }
                    return true;
                }
                Ok(None) => return false,
                Err(_) => Box::pin(self.without_store(limiter, lease)).await,
            },
            false => Box::pin(self.decide_in_steps(limiter, lease)).await,
        };
        decided.map(|decided| *decision = decided).is_some()
    }

    async fn decide_in_steps(&self, limiter: &Shared<S>, lease: u64) -> Option<Decision> {
        let mut answers = Answers::new();
        let handed_back = match limiter.owing() {
            Some(local) if self.charging == Charging::Real => self.hand_back(local).await,
            _ => Ok(true),
        };
        let outcome = match handed_back {
            Ok(true) => self.ask(lease, &mut answers).await,
            other => other,
        };
        match outcome {
            Ok(true) => {
                let mut decision = self.decision_of(lease, &mut answers);
                if self.demands.has_asides && !decision.allowed {
                    self.refused(limiter, &mut decision).await;
                }
                Some(decision)
            }
            Ok(false) => None,
            Err(_) => self.without_store(limiter, lease).await,
        }
    }

    /// Every limit is enforced and charged: one call decides. `None` if the rules were replaced.
    async fn ask_once(&self, lease: u64) -> Result<Option<Verdicts>, StoreError> {
        let mut checks = Checks::new();
        checks.extend((0..self.demands.lines.len()).map(|line| self.check(line, lease)));
        self.run_checks(self.taking(), &checks).await
    }

    /// Asks the store: first what is only looked at, then what is charged all or none, last what
    /// is in shadow. Whether the rules are still the same.
    pub(super) async fn ask(&self, lease: u64, answers: &mut Answers) -> Result<bool, StoreError> {
        if self.demands.is_simple {
            let Some(verdicts) = self.ask_once(lease).await? else { return Ok(false) };
            answers.extend((0..).zip(verdicts));
            return Ok(true);
        }
        let known = self.seen_before(lease).await?;
        let Some(mut known) = known else { return Ok(false) };
        let mut looked_at = self.lines(|line| {
            let is_asked = matches!(line.kind, LineKind::Limit | LineKind::Ban);
            !self.demands.demands[line.demand].charged && is_asked
        });
        looked_at.retain(|line| !self.is_known(&known, *line));
        if !looked_at.is_empty() {
            let action = Action::Try { max_wait: Span::MAX };
            let Some(verdicts) = self.run(action, &looked_at, lease).await? else {
                return Ok(false);
            };
            answers.extend(looked_at.iter().copied().zip(verdicts));
            if answers.iter().any(|(line, verdict)| !verdict.allowed && self.is_enforced(*line)) {
                return Ok(true);
            }
        }
        let Some(allowed) = self.take(lease, &mut known, answers).await? else { return Ok(false) };
        if allowed {
            self.shadow(lease, &known, answers).await?;
        }
        Ok(true)
    }

    /// Each check has a patience of its own.
    fn taking(&self) -> Action {
        match self.charging {
            Charging::Real => Action::Take { max_wait: Span::MAX },
            Charging::Dry => Action::Try { max_wait: Span::MAX },
        }
    }

    fn is_enforced(&self, line: usize) -> bool {
        self.demands.demands[self.demands.lines[line].demand].enforced
    }

    /// The numbers of lines.
    pub(super) fn lines(&self, wanted: impl Fn(&Line<'_>) -> bool) -> SmallVec<[usize; 6]> {
        let lines = self.demands.lines.iter().enumerate();
        lines.filter(|(_, line)| wanted(line)).map(|(index, _)| index).collect()
    }

    /// Charges what is enforced, all or none. Whether it was allowed.
    async fn take(
        &self,
        lease: u64,
        known: &mut SmallVec<[usize; 2]>,
        answers: &mut Answers,
    ) -> Result<Option<bool>, StoreError> {
        loop {
            let wanted = self.lines(|line| {
                let demand = &self.demands.demands[line.demand];
                demand.enforced && demand.charged
            });
            let wanted: SmallVec<[usize; 6]> =
                wanted.into_iter().filter(|line| !self.is_known(known, *line)).collect();
            if wanted.is_empty() {
                return Ok(Some(true));
            }
            let verdicts = self.run(self.taking(), &wanted, lease).await?;
            let Some(verdicts) = verdicts else { return Ok(None) };
            let raced = wanted
                .iter()
                .zip(&verdicts)
                .find(|(line, verdict)| remembers(&self.demands.lines[**line]) && !verdict.allowed);
            if let Some((line, _)) = raced {
                // Somebody else was first to bring this value or id.
                known.push(*line);
                continue;
            }
            let allowed = verdicts.iter().all(|verdict| verdict.allowed);
            let said = wanted.iter().copied().zip(verdicts);
            answers
                .extend(said.filter(|(line, _)| self.demands.lines[*line].kind != LineKind::Seen));
            return Ok(Some(allowed));
        }
    }

    /// Rules in shadow are charged each on its own, for requests that pass.
    async fn shadow(
        &self,
        lease: u64,
        known: &[usize],
        answers: &mut Answers,
    ) -> Result<(), StoreError> {
        for (index, demand) in self.demands.demands.iter().enumerate() {
            if demand.enforced || !demand.charged {
                continue;
            }
            let asked = |kind| matches!(kind, LineKind::Limit | LineKind::Once);
            let mut lines = self.lines(|line| line.demand == index && asked(line.kind));
            lines.retain(|line| !self.is_known(known, *line));
            if lines.is_empty() {
                continue;
            }
            if let Some(verdicts) = self.run(self.taking(), &lines, lease).await? {
                let raced = lines.iter().zip(&verdicts).any(|(line, verdict)| {
                    remembers(&self.demands.lines[*line]) && !verdict.allowed
                });
                if raced {
                    continue;
                }
                answers.extend(lines.iter().copied().zip(verdicts));
            }
        }
        Ok(())
    }

    /// The lines of values and ids that were seen before.
    async fn seen_before(&self, lease: u64) -> Result<Option<SmallVec<[usize; 2]>>, StoreError> {
        let seen = self.lines(remembers);
        if seen.is_empty() {
            return Ok(Some(SmallVec::new()));
        }
        let action = Action::Try { max_wait: Span::ZERO };
        let Some(verdicts) = self.run(action, &seen, lease).await? else { return Ok(None) };
        let known = seen.iter().zip(verdicts).filter(|(_, verdict)| !verdict.allowed);
        Ok(Some(known.map(|(line, _)| *line).collect()))
    }

    pub(super) fn check<'c>(&'c self, line: usize, lease: u64) -> Check<'c> {
        let line = &self.demands.lines[line];
        let bucket = line.bound.bucket;
        let former = match self.shares {
            [] => self.installed.former(bucket, self.now),
            shares => {
                let mut shares = shares.iter();
                shares.find(|share| share.bound.bucket == bucket).and_then(|it| it.former.as_ref())
            }
        };
        self.demands.check(line, &self.domain.compiled.rules, lease, former)
    }

    /// Runs one call; `None` if the rules were replaced before the keys were held.
    pub(super) async fn run(
        &self,
        action: Action,
        lines: &[usize],
        lease: u64,
    ) -> Result<Option<Verdicts>, StoreError> {
        let checks: Checks<'_> = lines.iter().map(|line| self.check(*line, lease)).collect();
        self.run_checks(action, &checks).await
    }

    /// The same with checks that were made before.
    pub(super) fn run_checks(
        &self,
        action: Action,
        checks: &[Check<'_>],
    ) -> impl Future<Output = Result<Option<Verdicts>, StoreError>> + Send {
        let generation = self.installed.generation;
        let current = move || self.current.load().generation == generation;
        self.store.run_while(Call { action, checks }, current)
    }
}
