//! Warns about limits that never refuse, because another one of the same rule always does first.

use crate::read::definition::{LimitDefinition, RuleDefinition};
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::source::Spanned;
use tollgate::limit::{AlgorithmName, Limit};

/// Warns about the limits of a rule that another one makes useless.
pub(super) fn check(rule: &RuleDefinition, diagnostics: &mut Diagnostics) {
    let limit = |definition: &Spanned<LimitDefinition>| match &definition.value {
        LimitDefinition::Limit(limit) => Some((limit.clone(), definition.span)),
        _ => None,
    };
    let limits: Vec<_> = rule.limits.iter().filter_map(limit).collect();
    for (index, (limit, span)) in limits.iter().enumerate() {
        let tighter = limits.iter().enumerate().find(|(other, (tight, _))| {
            // Of two that are the same, the second is the useless one.
            *other != index && covers(tight, limit) && (*other < index || !covers(limit, tight))
        });
        let Some((_, (tight, other))) = tighter else { continue };
        let message = format!("{limit} can never refuse anything: {tight} always does first");
        diagnostics.push(
            Diagnostic::warning("never-binds", *span, message)
                .related(*other, "this one is tighter")
                .help("remove it, or make it tighter over its own period"),
        );
    }
}

/// Whether `loose` admits everything that `tight` admits. In doubt it does not.
fn covers(tight: &Limit, loose: &Limit) -> bool {
    if tight.unit_label() != loose.unit_label() {
        return false;
    }
    let (Some(tight), Some(loose)) =
        (AdmissionRate::from_limit(tight), AdmissionRate::from_limit(loose))
    else {
        return false;
    };
    match loose {
        AdmissionRate::Meter { burst, amount, nanos } => match tight {
            AdmissionRate::Meter { burst: least, amount: slow, nanos: long } => {
                burst >= least && amount * long >= slow * nanos
            }
            // Two windows may follow each other at any time.
            AdmissionRate::Window { .. } => false,
        },
        AdmissionRate::Window { amount, nanos } => {
            tight.most_within(nanos).is_some_and(|most| most <= amount)
        }
    }
}

/// The rate at which a limit admits requests.
#[derive(Clone, Copy)]
enum AdmissionRate {
    /// `burst` at once, and `amount` every `nanos`.
    Meter { burst: u128, amount: u128, nanos: u128 },
    /// `amount` within `nanos`.
    Window { amount: u128, nanos: u128 },
}

impl AdmissionRate {
    fn from_limit(limit: &Limit) -> Option<AdmissionRate> {
        let summary = limit.summary();
        let nanos = u128::from(summary.period?.span().as_nanos());
        let amount = u128::from(summary.amount);
        match summary.algorithm {
            AlgorithmName::TokenBucket | AlgorithmName::Gcra | AlgorithmName::LeakyBucket => {
                Some(AdmissionRate::Meter { burst: summary.burst.into(), amount, nanos })
            }
            AlgorithmName::FixedWindow
            | AlgorithmName::SlidingWindow
            | AlgorithmName::SlidingLog => Some(AdmissionRate::Window { amount, nanos }),
            _ => None,
        }
    }

    /// Returns the most that passes within a length of time, whenever it begins.
    fn most_within(self, length: u128) -> Option<u128> {
        match self {
            AdmissionRate::Meter { burst, amount, nanos } => {
                Some(burst.checked_add(amount.checked_mul(length)? / nanos)?)
            }
            AdmissionRate::Window { amount, nanos } => {
                amount.checked_mul(length.div_ceil(nanos) + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_useless_only_if_another_refuses_first() {
        let covers =
            |tight: &str, loose: &str| covers(&tight.parse().unwrap(), &loose.parse().unwrap());
        assert!(covers("10/s", "20/s"));
        assert!(covers("10/s burst 5", "600/min"));
        assert!(covers("10/min", "1000/h fixed"));
        assert!(covers("1/h fixed", "100/day sliding"));
        assert!(!covers("10/s burst 20", "20/s burst 10"));
        assert!(!covers("10/min", "500/h fixed"));
        assert!(!covers("10/s", "20k tokens/s"));
        assert!(!covers("10 concurrent", "20/s"));
        assert!(!covers("500/h", "10/min"));
    }
}
