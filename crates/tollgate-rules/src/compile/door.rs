//! The doors, and the parts of rules that each does not support.

use crate::Rules;
use crate::compile::domain::{CompiledRule, Domain, RuleLimit};
use crate::compile::policy::Then;
use crate::compile::supply;
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use tollgate::limit::LimitAlgorithm;

/// A way in which requests reach the limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Door {
    /// `limiter.decide(..)` in a Rust program.
    Library,
    /// The HTTP API.
    Http,
    /// Envoy's rate limit service.
    Grpc,
    /// The Redis protocol.
    Resp,
    /// The reverse proxy.
    Gateway,
    /// Forward-auth of other proxies.
    Auth,
    /// Middleware in a Rust service, which sees the head of a request.
    Layer,
}

impl Door {
    /// All doors.
    pub const ALL: [Door; 7] =
        [Door::Library, Door::Http, Door::Grpc, Door::Resp, Door::Gateway, Door::Auth, Door::Layer];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Door::Library => "library",
            Door::Http => "http",
            Door::Grpc => "grpc",
            Door::Resp => "resp",
            Door::Gateway => "gateway",
            Door::Auth => "auth",
            Door::Layer => "layer",
        }
    }

    /// Whether its clients can be made to wait before a request goes on.
    fn can_delay(self) -> bool {
        matches!(self, Door::Library | Door::Layer | Door::Http | Door::Gateway | Door::Auth)
    }

    /// Whether requests themselves wait in a queue here.
    fn has_queues(self) -> bool {
        matches!(self, Door::Library | Door::Layer | Door::Gateway)
    }

    /// Whether it learns the outcome of a request.
    fn sees_outcomes(self) -> bool {
        matches!(self, Door::Library | Door::Layer | Door::Gateway)
    }
}

impl Rules {
    /// Returns a warning for everything in these rules that a door does not support, and for
    /// every attribute that it [cannot supply](Rules::unsupplied).
    ///
    /// ```
    /// use tollgate_rules::{Door, Rules};
    ///
    /// let rules: Rules = "rules: [{ name: edge, limit: 10/s, then: delay up to 1s }]".parse()?;
    /// assert!(rules.unsupported(Door::Library).is_empty());
    /// assert_eq!(rules.unsupported(Door::Grpc).len(), 1);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn unsupported(&self, door: Door) -> Diagnostics {
        let mut diagnostics = Diagnostics::new(self.warnings().sources.clone());
        let numbered = |domain: &Domain| 0..domain.compiled.rules.len() as u32;
        let all =
            self.domains().iter().flat_map(|domain| numbered(domain).map(move |n| (domain, n)));
        for (domain, number) in all {
            let rule = &domain.compiled.rules[number as usize];
            supply::warn(domain, number, door, door.supplied_by_settings(), &mut diagnostics);
            for (what, instead) in unsupported_parts(rule, door) {
                let message =
                    format!("the door {} does not honour {what} of {:?}", door.as_str(), rule.name);
                let problem = Diagnostic::warning("not-honoured", rule.span, message);
                diagnostics.push(problem.help(format!("instead, {instead}")));
            }
        }
        diagnostics
    }
}

/// Returns the parts of a rule that a door does not support, and what happens instead.
fn unsupported_parts(rule: &CompiledRule, door: Door) -> Vec<(&'static str, &'static str)> {
    let mut parts = Vec::new();
    match &rule.then {
        Then::Allow | Then::Deny { .. } | Then::Ban(_) => {}
        Then::Delay { .. } if door.can_delay() => {}
        Then::Delay { .. } => {
            parts.push(("`then: delay`", "the request passes at once, and is charged"))
        }
        Then::Queue(_) if door.has_queues() => {}
        Then::Queue(_) if door.can_delay() => parts.push((
            "`then: queue`",
            "clients learn how long to wait; only a rate has a queue, one for each key",
        )),
        Then::Queue(_) => {
            parts.push(("`then: queue`", "the request passes at once, and is charged"))
        }
        Then::Defer if door == Door::Gateway => {}
        Then::Defer => {
            parts.push(("`then: defer`", "requests over the limit are refused with 429"))
        }
        Then::Shed(_) => {}
    }
    let settles = rule.cost.as_ref().is_some_and(|cost| cost.settle.is_some());
    if settles && !door.sees_outcomes() {
        parts.push(("`cost.settle`", "what was reserved stays charged"));
    }
    if rule.count.is_some() && !door.sees_outcomes() {
        parts.push((
            "`count`",
            "nothing is counted unless the request brings the outcome as attributes",
        ));
    }
    let adapts = |limit: &RuleLimit| matches!(limit, RuleLimit::Fixed(bound) if matches!(bound.limit.algorithm(), LimitAlgorithm::Adaptive(_)));
    if rule.limits.iter().any(adapts) && !door.sees_outcomes() {
        parts.push(("an adaptive limit", "it stays where it begins"));
    }
    parts
}
