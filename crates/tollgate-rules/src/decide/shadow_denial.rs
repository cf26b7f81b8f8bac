//! Refusals by rules in shadow mode: reported under their own names, and not enforced.

use tollgate_core::Verdict;

use crate::decide::decide_request::MatchedRequest;
use crate::decide::decision::{Decision, KeyText, LimitState, RuleLocation};
use tollgate::Store;

/// A refusal by a rule in shadow mode, by rule number.
#[derive(Clone, Debug)]
pub(crate) struct ShadowRefusal {
    pub(crate) rule: u32,
    pub(crate) key: KeyText,
    pub(crate) verdict: Verdict,
}

/// A refusal by a rule in shadow mode, which the request passed nevertheless.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ShadowDenial<'d> {
    /// The name of the rule.
    pub rule: &'d str,
    /// The location of the rule; none in Envoy domains.
    pub location: Option<RuleLocation>,
    /// The key whose counter is over the limit.
    pub key: &'d str,
    /// The verdict of the limit.
    pub verdict: Verdict,
}

impl LimitState {
    /// Whether the limit of a rule in shadow mode refuses the request.
    #[inline]
    pub(crate) fn is_shadow_refusal(&self) -> bool {
        !self.enforced && !self.verdict.allowed
    }
}

impl Decision {
    /// Whether a rule in shadow mode would have refused the request.
    pub fn shadow_denied(&self) -> bool {
        self.shadow_denials.is_some()
    }

    /// Returns the rules in shadow mode that would have refused the request, each with its key.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// let rules = "
    /// attributes: [user]
    /// rules:
    ///   - { name: all, limit: 10/s }
    ///   - { name: candidate, per: user, limit: 1/h, mode: shadow }
    /// ";
    /// let limiter = RuleLimiter::new(rules.parse()?);
    /// let ann = Request::empty().attribute("user", "ann");
    /// assert_eq!(limiter.decide_now(&ann).shadow_denials().count(), 0);
    /// let decision = limiter.decide_now(&ann);
    /// assert_eq!((decision.allowed, decision.rule()), (true, Some("all")));
    /// let denial = decision.shadow_denials().next().unwrap();
    /// assert_eq!((denial.rule, denial.key), ("candidate", "ann"));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn shadow_denials(&self) -> impl Iterator<Item = ShadowDenial<'_>> {
        self.shadow_denials.iter().flatten().map(|refusal| {
            let rules = self.rules.as_ref();
            let rule = rules.and_then(|rules| rules.rules.get(refusal.rule as usize));
            ShadowDenial {
                rule: rule.map_or_else(|| self.rule().unwrap_or_default(), |rule| &rule.name),
                location: rules.map(|rules| RuleLocation::new(rules, Some(refusal.rule))),
                key: std::str::from_utf8(&refusal.key).unwrap_or_default(),
                verdict: refusal.verdict,
            }
        })
    }
}

impl<S: Store> MatchedRequest<'_, '_, S> {
    /// Returns the refusals of rules in shadow mode, one for each rule.
    #[cold]
    pub(crate) fn shadow_refusals(&self, limits: &[LimitState]) -> Box<[ShadowRefusal]> {
        let mut refusals: Vec<ShadowRefusal> = Vec::new();
        for limit in limits.iter().filter(|limit| limit.is_shadow_refusal()) {
            let mut rule_checks = self.checks.rule_checks.iter();
            if refusals.iter().all(|known| known.rule != limit.rule)
                && let Some(rule_check) = rule_checks.find(|check| check.rule == limit.rule)
            {
                let key = self.checks.keys[rule_check.key.clone()].into();
                refusals.push(ShadowRefusal { rule: limit.rule, key, verdict: limit.verdict });
            }
        }
        refusals.into()
    }
}
