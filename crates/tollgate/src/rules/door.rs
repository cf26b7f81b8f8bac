//! What a door can do, and what it does instead of what it cannot.

use super::Rules;
use super::compiled::{Rule, RuleLimit};
use super::diagnostic::{Diagnostic, Diagnostics};
use super::policy::Then;
use crate::limit::Engine;

/// A way in which requests reach the limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Door {
    /// `limiter.decide(..)` in a Rust program.
    Library,
    /// Decisions asked for by HTTP.
    Http,
    /// Envoy's rate limit service.
    Grpc,
    /// The Redis protocol.
    Resp,
    /// The reverse proxy.
    Gateway,
}

impl Door {
    /// All of them.
    pub const ALL: [Door; 5] = [Door::Library, Door::Http, Door::Grpc, Door::Resp, Door::Gateway];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Door::Library => "library",
            Door::Http => "http",
            Door::Grpc => "grpc",
            Door::Resp => "resp",
            Door::Gateway => "gateway",
        }
    }

    /// Whether whoever asks can be told to wait before going on.
    fn can_delay(self) -> bool {
        matches!(self, Door::Library | Door::Http | Door::Gateway)
    }

    /// Whether requests themselves stand in line here, and not only who asks about them.
    fn has_lines(self) -> bool {
        matches!(self, Door::Library | Door::Gateway)
    }

    /// Whether it learns how a request went.
    fn sees_outcomes(self) -> bool {
        matches!(self, Door::Library | Door::Gateway)
    }
}

impl Rules {
    /// What a door cannot do of what these rules ask for, and what happens instead.
    ///
    /// ```
    /// use tollgate::{Rules, rules::Door};
    ///
    /// let rules: Rules = "rules: [{ name: edge, limit: 10/s, then: delay up to 1s }]".parse()?;
    /// assert!(rules.unsupported(Door::Library).is_empty());
    /// assert_eq!(rules.unsupported(Door::Grpc).len(), 1);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn unsupported(&self, door: Door) -> Diagnostics {
        let mut found = Diagnostics::new(self.warnings().sources.clone());
        for rule in self.domains().iter().flat_map(|domain| &domain.compiled.rules) {
            for (what, instead) in beyond(rule, door) {
                let message =
                    format!("the door {} does not honour {what} of {:?}", door.as_str(), rule.name);
                let problem = Diagnostic::warning("not-honoured", rule.place, message);
                found.push(problem.help(format!("instead, {instead}")));
            }
        }
        found
    }
}

/// What of a rule is beyond a door, and what it does instead.
fn beyond(rule: &Rule, door: Door) -> Vec<(&'static str, &'static str)> {
    let mut beyond = Vec::new();
    match &rule.then {
        Then::Allow | Then::Deny { .. } | Then::Ban(_) => {}
        Then::Delay { .. } if door.can_delay() => {}
        Then::Delay { .. } => {
            beyond.push(("`then: delay`", "the request passes at once, and is charged"))
        }
        Then::Queue(_) if door.has_lines() => {}
        Then::Queue(_) if door.can_delay() => beyond.push((
            "`then: queue`",
            "requests are told to wait in turn; a rate counts the line of each key by itself, nothing else does",
        )),
        Then::Queue(_) => {
            beyond.push(("`then: queue`", "the request passes at once, and is charged"))
        }
        Then::Defer if door == Door::Gateway => {}
        Then::Defer => {
            beyond.push(("`then: defer`", "requests over the limit are refused with 429"))
        }
        Then::Shed(_) => {}
    }
    let settles = rule.cost.as_ref().is_some_and(|cost| cost.settle.is_some());
    if settles && !door.sees_outcomes() {
        beyond.push(("`cost.settle`", "what was reserved stays charged"));
    }
    if rule.count.is_some() && !door.sees_outcomes() {
        beyond.push((
            "`count`",
            "nothing is counted unless the request brings the outcome as attributes",
        ));
    }
    if rule.counts_by_upstream() && !matches!(door, Door::Library | Door::Gateway) {
        beyond.push((
            "`per: upstream`",
            "all requests share one counter, unless they bring the attribute along",
        ));
    }
    let adapts = |limit: &RuleLimit| matches!(limit, RuleLimit::Fixed(bound) if matches!(bound.limit.engine(), Engine::Adaptive(_)));
    if rule.limits.iter().any(adapts) && !door.sees_outcomes() {
        beyond.push(("an adaptive limit", "it stays where it begins"));
    }
    beyond
}
