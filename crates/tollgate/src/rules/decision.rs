//! The answer to a request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::Verdict;

use super::compiled::{Compiled, Rule};
use super::policy::{Mode, OnError, Priority, Then};
use crate::denied::Readable;
use crate::{Quota, Reserve};

/// Why a request passes or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Every limit allows it.
    WithinLimits,
    /// A rule lets it pass outright.
    AllowedByRule,
    /// No rule is about it.
    Unmatched,
    /// It is over a limit.
    OverLimit,
    /// It asks for more than a limit can ever hold: coming back does not help.
    NeverFits,
    /// A rule refuses it outright.
    DeniedByRule,
    /// Its key is banned.
    Banned,
    /// It lacks an attribute that a rule insists on.
    KeyMissing,
    /// The store could not be asked: what then is said by `on_error`.
    StoreFailed,
}

impl Reason {
    /// Its name in logs and replies.
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

/// The answer to a request: whether it passes, why, and how each limit stands.
///
/// ```
/// use tollgate::{Limiter, Request, Rules};
///
/// let rules: Rules = "rules: [{ name: api, per: user, limit: 1/min }]".parse()?;
/// let limiter = Limiter::from_rules(rules);
/// let ann = Request::new("GET", "/").attribute("user", "ann");
/// assert!(limiter.decide(&ann).allowed);
///
/// let decision = limiter.decide(&ann);
/// assert_eq!((decision.allowed, decision.code), (false, 429));
/// assert_eq!(decision.rule(), Some("api"));
/// assert!(decision.retry_after.is_some());
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone)]
pub struct Decision {
    /// Whether it passes.
    pub allowed: bool,
    /// Why.
    pub reason: Reason,
    /// The HTTP status that says so: 200, 429, 503, or what the rule says.
    pub code: u16,
    /// How long an allowed request must be held back.
    pub wait: Duration,
    /// After this long a refused request passes, if nobody else spends meanwhile. `None` if it is
    /// not a matter of time.
    pub retry_after: Option<Duration>,
    pub(crate) rule: Option<u32>,
    pub(crate) key: Option<KeyText>,
    pub(crate) limits: SmallVec<[LimitState; 4]>,
    pub(crate) rules: Option<Arc<Compiled>>,
    /// What the domain and the limit are called where there are no rules.
    pub(crate) named: Option<Box<Named>>,
    pub(crate) held: Option<Box<super::held::Held>>,
    pub(crate) without_store: Option<OnError>,
    pub(crate) starts_ban: bool,
    pub(crate) shed: Option<Priority>,
    pub(crate) tenant: Option<Box<str>>,
}

/// A key that most often needs no memory of its own.
pub(crate) type KeyText = SmallVec<[u8; 36]>;

/// The names of what decided in a domain written for Envoy.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) domain: Arc<str>,
    pub(crate) limit: Arc<str>,
}

/// Where a rule stands among all that were ever compiled in this process.
///
/// ```
/// use tollgate::{Limiter, Request};
/// let limiter = Limiter::from_rules("rules: [{ name: all, limit: 10/s }]".parse()?);
/// let (one, two) = (limiter.decide(&Request::empty()), limiter.decide(&Request::empty()));
/// assert_eq!(one.place(), two.place());
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RulePlace {
    /// The domain as it was compiled: another number whenever its file is read again.
    pub set: u64,
    /// The number of the rule in it; none if no rule decided.
    pub rule: Option<u32>,
    /// How many rules it has.
    pub of: u32,
}

/// How one limit stands after a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitState {
    pub(crate) rule: u32,
    pub(crate) quota: Quota,
    pub(crate) verdict: Verdict,
    pub(crate) mode: Mode,
    pub(crate) enforced: bool,
    pub(crate) cost: u64,
    pub(crate) reserve: Reserve,
}

/// How one limit stands after a decision.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LimitStatus<'d> {
    /// The rule it belongs to.
    pub rule: &'d str,
    /// The limit in brief.
    pub quota: Quota,
    /// What it says.
    pub verdict: Verdict,
    /// What was asked of it.
    pub cost: u64,
    /// What had to be left of it for others.
    pub reserve: Reserve,
    /// The rule's mode.
    pub mode: Mode,
    /// Whether a refusal counts.
    pub enforced: bool,
}

impl Decision {
    /// The rule that decided: the one that refused, or the one closest to refusing.
    pub fn rule(&self) -> Option<&str> {
        match (&self.rules, &self.named) {
            (Some(rules), _) => Some(&rules.rules.get(self.rule? as usize)?.name),
            (None, named) => named.as_ref().map(|named| &*named.limit),
        }
    }

    /// The domain whose rules decided; none if there is no such domain.
    pub fn domain(&self) -> Option<&str> {
        match (&self.rules, &self.named) {
            (Some(rules), _) => Some(&rules.domain),
            (None, named) => named.as_ref().map(|named| &*named.domain),
        }
    }

    /// Where the deciding rule stands among all that were ever compiled, for who keeps something
    /// about each rule and must find it quickly. None where no rules were compiled: in domains
    /// written for Envoy, and in domains that do not exist.
    pub fn place(&self) -> Option<RulePlace> {
        let rules = self.rules.as_ref()?;
        Some(RulePlace { set: rules.number, rule: self.rule, of: rules.rules.len() as u32 })
    }

    /// Whose counter decided: the values of the `per` of that [rule](Decision::rule), as
    /// [one text](super::encode_key). None if no limit was asked.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().and_then(|key| std::str::from_utf8(key).ok())
    }

    /// Who asked, of those who [share](super::FairTenants) the counter that decided: the value of `fair`
    /// of its rule, as a [key](super::encode_key) of its own, behind the counter's key if it has one.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    /// let rules = "rules: [{ name: api, limit: 10/s, fair: { by: org } }]";
    /// let decision = Limiter::from_rules(rules.parse()?).decide(&Request::empty().attribute("org", "acme"));
    /// assert_eq!((decision.key(), decision.tenant()), (Some(""), Some("acme")));
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// What the deciding rule does with what it refuses.
    pub fn then(&self) -> Option<&Then> {
        let rules = self.rules.as_ref()?;
        Some(&rules.rules.get(self.rule? as usize)?.then)
    }

    /// Every limit that was asked, in the order of the rules.
    pub fn limits(&self) -> impl Iterator<Item = LimitStatus<'_>> {
        let rules = self.rules.as_ref().map_or(&[][..], |rules| &rules.rules);
        self.limits.iter().map(move |state| {
            let rule = rules.get(state.rule as usize);
            LimitStatus {
                rule: rule.map_or_else(|| self.rule().unwrap_or_default(), |rule| &rule.name),
                quota: state.quota,
                verdict: state.verdict,
                cost: state.cost,
                reserve: state.reserve,
                mode: state.mode,
                enforced: state.enforced,
            }
        })
    }

    /// The limit to tell the client about: of those enforced, the one with the least left.
    pub fn tightest(&self) -> Option<LimitStatus<'_>> {
        let enforced = self.limits().filter(|limit| limit.enforced);
        enforced.min_by_key(|limit| (limit.verdict.allowed, limit.verdict.remaining))
    }

    /// What was done instead, if the store could not be asked: the request was let through or
    /// refused, or this node's share of the limits decided.
    pub fn without_store(&self) -> Option<OnError> {
        self.without_store
    }

    /// Whether this refusal was the last one needed: its key is banned from now on, by the ladder of
    /// the [rule](Decision::rule).
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    /// let limiter = Limiter::from_rules("rules: [{ name: a, limit: 1/h, then: ban 1min }]".parse()?);
    /// let starts = [(); 3].map(|()| limiter.decide(&Request::empty()).starts_ban());
    /// assert_eq!(starts, [false, true, false]);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn starts_ban(&self) -> bool {
        self.starts_ban
    }

    /// The priority of a request that was dropped because more important ones keep what is left, or
    /// because nothing is: refused over a limit whose rule says `then: shed`.
    ///
    /// ```
    /// use tollgate::rules::Priority;
    /// use tollgate::{Limiter, Request};
    /// let limiter = Limiter::from_rules("
    /// rules: [{ name: a, limit: 10/h, then: shed, priority: 'header[\"x-priority\"]' }]
    /// ".parse()?);
    /// let ask = |priority| limiter.decide(&Request::new("GET", "/").header("x-priority", priority));
    /// assert!((0..5).all(|_| ask("batch").allowed));
    /// assert_eq!((ask("batch").shed(), ask("batch").code), (Some(Priority::Batch), 503));
    /// assert!(ask("critical").allowed);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn shed(&self) -> Option<Priority> {
        self.shed
    }

    /// Whether it matters how the request goes: it holds a place of a limit on concurrency, or a
    /// rule counts outcomes or settles costs. If it does, [`RuleLimiter::report`] and
    /// [`RuleLimiter::done`] are to be told.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    /// let limiter = Limiter::from_rules("rules: [{ name: a, limit: 5 concurrent }]".parse()?);
    /// assert!(limiter.decide(&Request::empty()).is_to_be_followed());
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    ///
    /// [`RuleLimiter::report`]: super::RuleLimiter::report
    /// [`RuleLimiter::done`]: super::RuleLimiter::done
    pub fn is_to_be_followed(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.has_places()) || self.has_outcome()
    }

    /// Whether a rule that charged it counts outcomes or settles costs.
    pub fn has_outcome(&self) -> bool {
        self.held_rules().any(|rule| rule.has_outcome())
    }

    /// The attributes of the answer that those rules look at, such as `response.status` or
    /// `response.body.usage.total_tokens`. Some come several times.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    /// let limiter = Limiter::from_rules("
    /// rules: [{ name: login, limit: 5/min, count: response.status in [401, 403] }]
    /// ".parse()?);
    /// let decision = limiter.decide(&Request::empty());
    /// assert_eq!(decision.wanted().collect::<Vec<_>>(), ["response.status"]);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn wanted(&self) -> impl Iterator<Item = &str> {
        self.held_rules().flat_map(|rule| rule.outcome.iter()).map(|name| &**name)
    }

    /// For how long after it something of what it charged may still go back.
    pub fn expire(&self) -> Option<Duration> {
        let open = self.held.as_ref().and_then(|held| held.open);
        open.or_else(|| self.held_rules().map(Rule::expire).max())
    }

    /// The rules whose charges may still change.
    fn held_rules(&self) -> impl Iterator<Item = &Rule> {
        let lines = self.held.as_ref().map_or(&[][..], |held| &held.lines);
        let rules = self.rules.as_ref().map_or(&[][..], |rules| &rules.rules);
        lines.iter().filter_map(|line| rules.get(line.rule as usize))
    }

    /// Whether rules in shadow mode would have refused it.
    pub fn shadow_denied(&self) -> bool {
        self.limits.iter().any(|limit| !limit.enforced && !limit.verdict.allowed)
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
                write!(f, "allowed after {} by {rule}", Readable(self.wait))
            }
            (true, ..) => f.write_str("allowed"),
            (false, Reason::Unmatched, _) => f.write_str("refused: no rule is about it"),
            (false, Reason::DeniedByRule, _) => write!(f, "refused by {rule}"),
            (false, Reason::Banned, Some(rest)) => {
                write!(f, "banned by {rule}: {} left", Readable(rest))
            }
            (false, Reason::Banned, None) => write!(f, "banned by {rule}"),
            (false, Reason::KeyMissing, _) => {
                write!(f, "refused by {rule}: it lacks an attribute the rule counts by")
            }
            (false, Reason::StoreFailed, _) => f.write_str("refused: the store could not be asked"),
            (false, Reason::NeverFits, _) => {
                write!(f, "refused by {rule}: it asks for more than the limit holds")
            }
            (false, _, Some(retry)) => write!(f, "refused by {rule}: retry in {}", Readable(retry)),
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
