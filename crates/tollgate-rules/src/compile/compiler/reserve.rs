//! Checks that the limits of rules with `shed` or `fair` can reserve a part.

use crate::compile::domain::{BoundLimit, RuleLimit};
use crate::compile::policy::Then;
use crate::read::diagnostic::Diagnostic;
use crate::read::source::SourceSpan;
use tollgate::Limit;
use tollgate::limit::LimitAlgorithm;

/// Refuses a limit that warms up in a rule with `shed` or `fair`.
///
/// A limit that warms up lets a request pass whenever nothing is owed, so there is no balance to reserve.
pub(super) fn check(
    limit: &Limit,
    then: &Then,
    fair: bool,
    span: SourceSpan,
) -> Result<(), Diagnostic> {
    let sheds = matches!(then, Then::Shed(_));
    let what = match limit.algorithm() {
        LimitAlgorithm::WarmUp(_) if sheds => "`shed` can reserve nothing",
        LimitAlgorithm::WarmUp(_) if fair => "`fair` can reserve nothing",
        _ => return Ok(()),
    };
    let limit = limit.to_string();
    let rate = limit.split(" warmup").next().unwrap_or_default();
    let message = format!("{what} of a limit that warms up: it saves no balance");
    let help = format!("write `limit: {rate}` here, and `limit: {limit}` in a rule of its own");
    Err(Diagnostic::error("conflicting-fields", span, message).help(help))
}

impl RuleLimit {
    /// Iterates over every limit that may apply.
    pub(super) fn bounds(&self) -> impl Iterator<Item = &BoundLimit> {
        let (one, by_plan) = match self {
            RuleLimit::Fixed(bound) => (Some(bound), &[][..]),
            RuleLimit::Plan { by_plan, .. } => (None, &by_plan[..]),
            RuleLimit::Distinct(_) => (None, &[][..]),
        };
        one.into_iter().chain(by_plan.iter().flatten())
    }
}
