//! Limits of which nothing can be kept for others.

use super::super::compiled::{Bound, RuleLimit};
use super::super::diagnostic::Diagnostic;
use super::super::policy::Then;
use super::super::source::Place;
use crate::Limit;
use crate::limit::Engine;

/// What is wrong with a limit of a rule that keeps something for others: one that warms up lets a
/// request pass whenever nothing is owed, and has nothing saved up to be kept.
pub(super) fn check(
    limit: &Limit,
    then: &Then,
    fair: bool,
    place: Place,
) -> Result<(), Diagnostic> {
    let sheds = matches!(then, Then::Shed(_));
    let what = match limit.engine() {
        Engine::WarmUp(_) if sheds => "`shed` keeps nothing",
        Engine::WarmUp(_) if fair => "`fair` promises nothing",
        _ => return Ok(()),
    };
    let limit = limit.to_string();
    let rate = limit.split(" warmup").next().unwrap_or_default();
    let message = format!("{what} of a limit that warms up: it has nothing saved up");
    let help = format!("write `limit: {rate}` here, and `limit: {limit}` in a rule of its own");
    Err(Diagnostic::error("conflicting-fields", place, message).help(help))
}

impl RuleLimit {
    /// Every limit it may stand for.
    pub(super) fn bounds(&self) -> impl Iterator<Item = &Bound> {
        let (one, by_plan) = match self {
            RuleLimit::Fixed(bound) => (Some(bound), &[][..]),
            RuleLimit::Plan { by_plan, .. } => (None, &by_plan[..]),
            RuleLimit::Distinct(_) => (None, &[][..]),
        };
        one.into_iter().chain(by_plan.iter().flatten())
    }
}
