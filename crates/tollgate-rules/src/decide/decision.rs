//! The decision on a request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::Verdict;

use crate::compile::domain::CompiledDomain;
use crate::compile::policy::{Mode, OnError, Priority, Then};
use crate::decide::admission::Admission;
use crate::decide::held_charges::HeldCharges;
use crate::decide::incomplete_key::IncompleteKeyParts;
use crate::decide::shadow_denial::ShadowRefusal;
use tollgate::HumanDuration;
use tollgate::{LimitSummary, Reserve};

/// The reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Every limit allows the request.
    WithinLimits,
    /// A rule allows the request without a limit.
    AllowedByRule,
    /// No rule matches the request.
    Unmatched,
    /// The request is over a limit.
    OverLimit,
    /// The cost exceeds the capacity of a limit, so a retry cannot succeed.
    NeverFits,
    /// A rule denies the request without a limit.
    DeniedByRule,
    /// The key is banned.
    Banned,
    /// The request lacks an attribute that a rule requires.
    KeyMissing,
    /// The store did not answer, and `on_error` decided.
    StoreFailed,
}

impl Reason {
    /// Returns the name in logs and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::WithinLimits => "within_limits",
            Reason::AllowedByRule => "allowed_by_rule",
            Reason::Unmatched => "unmatched",
            Reason::OverLimit => "over_limit",
            Reason::NeverFits => "never_fits",
            Reason::DeniedByRule => "denied_by_rule",
            Reason::Banned => "banned",
            Reason::KeyMissing => "key_missing",
            Reason::StoreFailed => "store_failed",
        }
    }
}

/// The decision on a request: whether it passes, why, and the state of each limit.
///
/// Clones share the [guard](Admission) of what the request holds.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter, Rules};
///
/// let rules: Rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/min }]".parse()?;
/// let limiter = RuleLimiter::new(rules);
/// let ann = Request::new("GET", "/").attribute("user", "ann");
/// assert!(limiter.decide_now(&ann).allowed);
///
/// let decision = limiter.decide_now(&ann);
/// assert_eq!((decision.allowed, decision.code), (false, 429));
/// assert_eq!(decision.rule(), Some("api"));
/// assert!(decision.retry_after.is_some());
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone)]
pub struct Decision {
    /// Whether the request passes.
    pub allowed: bool,
    /// The reason.
    pub reason: Reason,
    /// The HTTP status: 200, 429, 503, or the status of the rule.
    pub code: u16,
    /// How long an allowed request must be delayed.
    pub wait: Duration,
    /// When a refused request passes if no other request spends meanwhile. `None` if a retry cannot
    /// succeed by waiting.
    pub retry_after: Option<Duration>,
    pub(crate) rule: Option<u32>,
    pub(crate) key: Option<KeyText>,
    pub(crate) limits: SmallVec<[LimitState; 4]>,
    pub(crate) rules: Option<Arc<CompiledDomain>>,
    /// The names of the domain and the limit in a domain without rules.
    pub(crate) named: Option<Box<Named>>,
    /// The charges, until a guard takes them.
    pub(crate) held: Option<Box<HeldCharges>>,
    pub(crate) admission: Option<Admission>,
    pub(crate) without_store: Option<OnError>,
    pub(crate) starts_ban: bool,
    pub(crate) shed: Option<Priority>,
    /// The rules in shadow mode that would have refused the request; usually none.
    pub(crate) shadow_denials: Option<Box<[ShadowRefusal]>>,
    /// The rules that count the request under a key with missing parts; usually none.
    pub(crate) incomplete_keys: Option<Box<[IncompleteKeyParts]>>,
    pub(crate) tenant: Option<Box<str>>,
}

/// A key that usually needs no allocation.
pub(crate) type KeyText = SmallVec<[u8; 36]>;

/// The names of the domain and the limit that decided in an Envoy domain.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) domain: Arc<str>,
    pub(crate) limit: Arc<str>,
}

/// The number of a rule among all rules that were compiled in this process.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter};
/// let limiter = RuleLimiter::new("rules: [{ name: all, limit: 10/s }]".parse()?);
/// let (one, two) = (limiter.decide_now(&Request::empty()), limiter.decide_now(&Request::empty()));
/// assert_eq!(one.rule_location(), two.rule_location());
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleLocation {
    /// The number of the compiled domain; it changes whenever the domain is compiled again.
    pub set: u64,
    /// The number of the rule in the domain; none if no rule decided.
    pub rule: Option<u32>,
    /// The number of rules in the domain.
    pub of: u32,
}

/// The state of a limit after a decision, by rule number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitState {
    pub(crate) rule: u32,
    pub(crate) quota: LimitSummary,
    pub(crate) verdict: Verdict,
    pub(crate) mode: Mode,
    pub(crate) enforced: bool,
    pub(crate) cost: u64,
    pub(crate) reserve: Reserve,
}

/// The state of a limit after a decision.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LimitStatus<'d> {
    /// The name of the rule.
    pub rule: &'d str,
    /// The action of the rule over the limit; none in Envoy domains.
    pub then: Option<&'d Then>,
    /// The summary of the limit.
    pub quota: LimitSummary,
    /// The unit that the limit counts, if it is not requests: the `tokens` of `200k tokens/min`.
    pub unit: Option<&'d str>,
    /// The verdict of the limit.
    pub verdict: Verdict,
    /// The cost of the check.
    pub cost: u64,
    /// The amount that the request must leave for others.
    pub reserve: Reserve,
    /// The rule's mode.
    pub mode: Mode,
    /// Whether a refusal is enforced.
    pub enforced: bool,
}

impl Decision {
    /// Returns the rule that decided: the one that refused, or the one closest to refusing.
    pub fn rule(&self) -> Option<&str> {
        match (&self.rules, &self.named) {
            (Some(rules), _) => Some(&rules.rules.get(self.rule? as usize)?.name),
            (None, named) => named.as_ref().map(|named| &*named.limit),
        }
    }

    /// Returns the domain whose rules decided; none if there is no such domain.
    pub fn domain(&self) -> Option<&str> {
        match (&self.rules, &self.named) {
            (Some(rules), _) => Some(&rules.domain),
            (None, named) => named.as_ref().map(|named| &*named.domain),
        }
    }

    /// Returns the location of the deciding rule, for fast lookup of per-rule data. None in Envoy
    /// domains and in unknown domains.
    pub fn rule_location(&self) -> Option<RuleLocation> {
        Some(RuleLocation::new(self.rules.as_ref()?, self.rule))
    }

    /// Returns the key whose counter decided: the values of the `per` of the
    /// [rule](Decision::rule), as [one text](crate::encode_key). None if no limit was checked.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().and_then(|key| std::str::from_utf8(key).ok())
    }

    /// Returns the tenant that [shares](crate::FairTenants) the deciding counter: the value of
    /// `fair`, as a [key](crate::encode_key), after the key of the counter if that has one.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// let rules = "attributes: [org]\nrules: [{ name: api, limit: 10/s, fair: { by: org } }]";
    /// let decision = RuleLimiter::new(rules.parse()?).decide_now(&Request::empty().attribute("org", "acme"));
    /// assert_eq!((decision.key(), decision.tenant()), (Some(""), Some("acme")));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Returns the action of the deciding rule over its limit.
    pub fn then(&self) -> Option<&Then> {
        let rules = self.rules.as_ref()?;
        Some(&rules.rules.get(self.rule? as usize)?.then)
    }

    /// Returns every limit that was checked, in the order of the rules.
    pub fn limits(&self) -> impl Iterator<Item = LimitStatus<'_>> {
        let rules = self.rules.as_ref().map_or(&[][..], |rules| &rules.rules);
        self.limits.iter().map(move |state| {
            let rule = rules.get(state.rule as usize);
            LimitStatus {
                rule: rule.map_or_else(|| self.rule().unwrap_or_default(), |rule| &rule.name),
                then: rule.map(|rule| &rule.then),
                quota: state.quota,
                unit: rule.and_then(|rule| rule.unit_of(&state.quota)),
                verdict: state.verdict,
                cost: state.cost,
                reserve: state.reserve,
                mode: state.mode,
                enforced: state.enforced,
            }
        })
    }

    /// Returns the limit to report to the client: the enforced one with the least remaining.
    pub fn tightest(&self) -> Option<LimitStatus<'_>> {
        let enforced = self.limits().filter(|limit| limit.enforced);
        enforced.min_by_key(|limit| (limit.verdict.allowed, limit.verdict.remaining))
    }

    /// Returns what happened if the store did not answer: the request was allowed or refused, or
    /// this node's share of the limits decided.
    pub fn without_store(&self) -> Option<OnError> {
        self.without_store
    }

    /// Whether this refusal started a ban of the key by the ladder of the [rule](Decision::rule).
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// let limiter = RuleLimiter::new("rules: [{ name: a, limit: 1/h, then: ban 1min }]".parse()?);
    /// let starts = [(); 3].map(|()| limiter.decide_now(&Request::empty()).starts_ban());
    /// assert_eq!(starts, [false, true, false]);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn starts_ban(&self) -> bool {
        self.starts_ban
    }

    /// Returns the priority of a request that was shed: refused over a limit whose rule has `then:
    /// shed`.
    ///
    /// ```
    /// use tollgate_rules::{Priority, Request, RuleLimiter};
    /// let limiter = RuleLimiter::new("
    /// rules: [{ name: a, limit: 10/h, then: shed, priority: 'header[\"x-priority\"]' }]
    /// ".parse()?);
    /// let ask = |priority| limiter.decide_now(&Request::new("GET", "/").header("x-priority", priority));
    /// assert!((0..5).all(|_| ask("batch").allowed));
    /// assert_eq!((ask("batch").shed(), ask("batch").code), (Some(Priority::Batch), 503));
    /// assert!(ask("critical").allowed);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn shed(&self) -> Option<Priority> {
        self.shed
    }

    /// Takes the guard of what the request holds until it ends; none if it holds nothing.
    ///
    /// The leases are renewed from then on. A guard that is not taken is dropped with the decision,
    /// unless it was [detached](Admission::detach).
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// let rules = "rules: [{ name: a, limit: 10/s }, { name: b, route: /b, limit: 5 concurrent }]";
    /// let limiter = RuleLimiter::new(rules.parse()?);
    /// assert!(limiter.decide_now(&Request::new("GET", "/a")).take_admission().is_none());
    /// assert!(limiter.decide_now(&Request::new("GET", "/b")).take_admission().is_some());
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn take_admission(&mut self) -> Option<Admission> {
        self.admission.take().inspect(Admission::renew_leases)
    }

    /// Returns the guard of what the request holds until it ends; none if it holds nothing.
    pub fn admission(&self) -> Option<&Admission> {
        self.admission.as_ref()
    }
}

impl RuleLocation {
    pub(crate) fn new(rules: &CompiledDomain, rule: Option<u32>) -> RuleLocation {
        RuleLocation { set: rules.number, rule, of: rules.rules.len() as u32 }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule().unwrap_or("-");
        match (self.allowed, self.reason, self.retry_after) {
            (true, Reason::Unmatched, _) => f.write_str("allowed: no rule is about it"),
            (true, Reason::AllowedByRule, _) => write!(f, "allowed by {rule}"),
            (true, Reason::StoreFailed, _) => f.write_str("allowed: the store could not be asked"),
            (true, ..) if !self.wait.is_zero() => {
                write!(f, "allowed after {} by {rule}", HumanDuration(self.wait))
            }
            (true, ..) => f.write_str("allowed"),
            (false, Reason::Unmatched, _) => f.write_str("refused: no rule is about it"),
            (false, Reason::DeniedByRule, _) => write!(f, "refused by {rule}"),
            (false, Reason::Banned, Some(rest)) => {
                write!(f, "banned by {rule}: {} left", HumanDuration(rest))
            }
            (false, Reason::Banned, None) => write!(f, "banned by {rule}"),
            (false, Reason::KeyMissing, _) => {
                write!(f, "refused by {rule}: it lacks an attribute the rule counts by")
            }
            (false, Reason::StoreFailed, _) => f.write_str("refused: the store could not be asked"),
            (false, Reason::NeverFits, _) => {
                write!(f, "refused by {rule}: it asks for more than the limit holds")
            }
            (false, _, Some(retry)) => {
                write!(f, "refused by {rule}: retry in {}", HumanDuration(retry))
            }
            (false, _, None) => write!(f, "refused by {rule}"),
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("allowed", &self.allowed)
            .field("reason", &self.reason)
            .field("code", &self.code)
            .field("rule", &self.rule())
            .field("wait", &self.wait)
            .field("retry_after", &self.retry_after)
            .field("limits", &self.limits)
            .finish()
    }
}
