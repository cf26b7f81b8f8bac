//! Where a request is to stand, given what it was answered.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Meter, Span, Time};

use super::newcomer::{Again, Newcomer};
use super::places_of;
use crate::Store;
use crate::limit::{AlgorithmName, Engine};
use crate::rules::Request;
use crate::rules::compiled::{Bound, Compiled, Rule};
use crate::rules::decision::{Decision, LimitState, Reason};
use crate::rules::demand::{Line, write_part};
use crate::rules::expr::On;
use crate::rules::facts::Facts;
use crate::rules::held::HeldLine;
use crate::rules::key::{KeyBytes, KeyWriter};
use crate::rules::limiter::Shared;
use crate::rules::policy::{Queue, Then};

/// On what occasion a request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is only asked about.
    Asked,
    /// It arrives and would stand in line: not past those who do already.
    Arrives,
    /// The same, if its upstream is free: otherwise it goes to another one.
    ArrivesIfFree,
    /// It stood in line for so long.
    Waited(Duration),
    /// It stands in line for so long, for another upstream than it asks about.
    Roams(Duration),
}

impl Turn {
    /// Whether it is not to overtake those who stand in line.
    #[inline]
    pub(crate) fn is_behind_others(self) -> bool {
        matches!(self, Turn::Arrives | Turn::ArrivesIfFree | Turn::Roams(_))
    }

    /// For how long it may still be held back by a rule that has so much patience.
    #[inline]
    pub(crate) fn patience_left(self, rule: &Rule, line: &Line<'_>, patience: Span) -> Span {
        match (self, &rule.then) {
            (Turn::Asked, Then::Queue(queue)) => patience.min(longest_line(queue, line)),
            (Turn::Asked | Turn::Arrives, _) => patience,
            (Turn::ArrivesIfFree | Turn::Roams(_), _) if rule.counts_by_upstream() => Span::ZERO,
            (Turn::ArrivesIfFree, _) => patience,
            (Turn::Waited(waited) | Turn::Roams(waited), _) => patience - waited.into(),
        }
    }

    /// Whether a refusal is the last word: not if it is to ask about another upstream, or stands in
    /// line.
    pub(crate) fn is_last_word(
        self,
        decision: &Decision,
        rules: &Compiled,
        patience: Duration,
    ) -> bool {
        let waited = match self {
            Turn::Asked => return true,
            Turn::Roams(_) => return false,
            Turn::ArrivesIfFree if decision.is_about_upstream() => return false,
            Turn::Arrives | Turn::ArrivesIfFree => Duration::ZERO,
            Turn::Waited(waited) => waited,
        };
        !stands_in_line(decision, rules, patience, waited)
    }
}

/// How long the last of a full line would have to wait, where time tells how many stand in it: who
/// is told to wait stands in no room, but its turn is taken.
#[cold]
fn longest_line(queue: &Queue, line: &Line<'_>) -> Span {
    let meter = steady(line.bound).filter(|_| line.cost == 1);
    meter.map_or(Span::MAX, |meter| {
        let (nanos, part) = meter.time_of(queue.places);
        Span::from_nanos(nanos.saturating_add(u64::from(part > 0)))
    })
}

/// Whether a request that was refused so waits for a place. A rate has given no turn that is near
/// enough: asking again would not change that.
fn stands_in_line(
    decision: &Decision,
    rules: &Compiled,
    patience: Duration,
    waited: Duration,
) -> bool {
    let is_patient = |rule: u32| rules.rules[rule as usize].then.patience().max(patience) > waited;
    let mut refused = decision.limits.iter().filter(|it| it.enforced && !it.verdict.allowed);
    decision.reason == Reason::OverLimit
        && decision.rule.is_some_and(is_patient)
        && refused.all(|limit| is_place(limit) && is_patient(limit.rule))
}

/// A place to stand.
pub(super) struct Spot {
    pub(super) rules: Arc<Compiled>,
    pub(super) rule: u32,
    pub(super) newcomer: Newcomer,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// It was charged and may go at `at`, but not before another limit lets it.
    Slot { at: Time, not_before: Time },
    /// It was charged nothing and asks again.
    Line(Again),
}

impl Spot {
    pub(super) fn rule(&self) -> &Rule {
        &self.rules.rules[self.rule as usize]
    }
}

/// A request that waits.
pub(super) struct Waiting<'w, 'r, S> {
    pub(super) limiter: &'w Shared<S>,
    pub(super) request: &'w Request<'r>,
    /// The same for other upstreams, which would do as well.
    pub(super) others: &'w [Request<'r>],
    pub(super) began: Time,
}

impl<S: Store> Waiting<'_, '_, S> {
    /// Where it stands after it was answered so; nowhere if that was the last word.
    pub(super) fn spot(&self, decision: &Decision, now: Time) -> Option<Spot> {
        let rules = decision.rules.as_ref()?;
        match decision.allowed {
            true => self.slot(rules, decision, now),
            false => self.line(rules, decision, now),
        }
    }

    fn slot(&self, rules: &Arc<Compiled>, decision: &Decision, now: Time) -> Option<Spot> {
        let enforced = decision.limits.iter().filter(|limit| limit.enforced);
        let longest = enforced.clone().max_by_key(|limit| limit.verdict.wait)?;
        let at = now + longest.verdict.wait;
        if longest.verdict.wait.is_zero() {
            return None;
        }
        let others = enforced.filter(|limit| limit.rule != longest.rule);
        let not_before = now + others.map(|limit| limit.verdict.wait).max().unwrap_or(Span::ZERO);
        let held = decision.held.as_ref()?;
        let mut lines = held.lines.iter().filter(|line| line.rule == longest.rule);
        let line = lines.next()?;
        let takes = takes(line).filter(|_| lines.next().is_none());
        let newcomer = self.newcomer(rules, longest.rule, &line.key);
        let newcomer = Newcomer { cost: line.cost, takes, ..newcomer };
        let kind = Kind::Slot { at, not_before };
        Some(Spot { rules: rules.clone(), rule: longest.rule, newcomer, kind })
    }

    fn line(&self, rules: &Arc<Compiled>, decision: &Decision, now: Time) -> Option<Spot> {
        let waited = now.since(self.began).into();
        if !stands_in_line(decision, rules, self.request.patience, waited) {
            return None;
        }
        let rule = decision.rule?;
        let newcomer = self.newcomer(rules, rule, decision.key.as_deref()?);
        let is_per_upstream = rules.rules[rule as usize].holds_places_per_upstream();
        let roams = is_per_upstream && !self.others.is_empty();
        let newcomer = Newcomer { roams, ..newcomer };
        let passes_at = decision.retry_after.map(|span| now + span.into());
        let kind = Kind::Line(Again { at: passes_at, passes_at });
        Some(Spot { rules: rules.clone(), rule, newcomer, kind })
    }

    /// How long a rule lets this request wait.
    pub(super) fn patience(&self, rule: &Rule) -> Duration {
        rule.then.patience().max(self.request.patience)
    }

    fn newcomer(&self, rules: &Compiled, rule: u32, key: &[u8]) -> Newcomer {
        let rule = &rules.rules[rule as usize];
        let (places, lifo) = places_of(&rule.then);
        let tenant: Arc<[u8]> = self.tenant(rules, rule).unwrap_or_default().as_slice().into();
        let key: Arc<[u8]> = key.into();
        let party = match rule.fair.is_some() {
            // Keys have no zero in them.
            true => [&key, &[0][..], &tenant].concat().into(),
            false => key.clone(),
        };
        Newcomer {
            key,
            tenant,
            party,
            cost: 1,
            takes: None,
            deadline: self.began + self.patience(rule).into(),
            places,
            lifo,
            fair: rule.fair.is_some(),
            roams: false,
        }
    }

    /// Who shares a limit fairly with others, where a rule says by what.
    fn tenant(&self, rules: &Compiled, rule: &Rule) -> Option<KeyBytes> {
        let by = rule.fair.as_ref()?;
        let installed = self.limiter.current.load();
        let domain = installed.rules.domain_of(self.request)?;
        let facts = Facts::new(self.request, &rules.trust);
        let on = On { facts: &facts, route: None, lists: &domain.lists };
        let mut tenant = KeyBytes::new();
        write_part(on, by, &mut KeyWriter::new(&mut tenant));
        Some(tenant)
    }
}

pub(super) fn is_place(limit: &LimitState) -> bool {
    matches!(limit.quota.algorithm, AlgorithmName::Concurrent | AlgorithmName::Adaptive)
}

/// How long a cost takes to come back, where that does not depend on when.
fn takes(line: &HeldLine) -> Option<Span> {
    steady(&line.bound).map(|meter| Span::from_nanos(meter.time_of(line.cost).0))
}

fn steady(bound: &Bound) -> Option<&Meter> {
    let Engine::Meter(meter) = bound.limit.engine() else { return None };
    let parts = meter.parts();
    (parts.interval.is_none() && !parts.pays_later).then_some(meter)
}
