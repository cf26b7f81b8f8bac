//! The doors, and the parts of rules that each does not support.

use crate::Rules;
use crate::compile::domain::{CompiledRule, RuleLimit};
use crate::compile::policy::Then;
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
}

/// The attribute that names where a request is sent on to.
const UPSTREAM: &str = "upstream";

impl Door {
    /// All doors.
    pub const ALL: [Door; 5] = [Door::Library, Door::Http, Door::Grpc, Door::Resp, Door::Gateway];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Door::Library => "library",
            Door::Http => "http",
            Door::Grpc => "grpc",
            Door::Resp => "resp",
            Door::Gateway => "gateway",
        }
    }

    /// Whether its clients can be made to wait before a request goes on.
    fn can_delay(self) -> bool {
        matches!(self, Door::Library | Door::Http | Door::Gateway)
    }

    /// Whether requests themselves wait in a queue here.
    fn has_queues(self) -> bool {
        matches!(self, Door::Library | Door::Gateway)
    }

    /// Whether it learns the outcome of a request.
    fn sees_outcomes(self) -> bool {
        matches!(self, Door::Library | Door::Gateway)
    }
}

impl Rules {
    /// Returns a warning for everything in these rules that a door does not support.
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
        for rule in self.domains().iter().flat_map(|domain| &domain.compiled.rules) {
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
    if rule.counts_by(UPSTREAM) && !matches!(door, Door::Library | Door::Gateway) {
        parts.push((
            "`per: upstream`",
            "all requests share one counter, unless they bring the attribute along",
        ));
    }
    let adapts = |limit: &RuleLimit| matches!(limit, RuleLimit::Fixed(bound) if matches!(bound.limit.algorithm(), LimitAlgorithm::Adaptive(_)));
    if rule.limits.iter().any(adapts) && !door.sees_outcomes() {
        parts.push(("an adaptive limit", "it stays where it begins"));
    }
    parts
}
