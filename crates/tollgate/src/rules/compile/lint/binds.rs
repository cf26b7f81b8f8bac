//! Limits that can never refuse anything, because another one of the same rule always does first.

use crate::limit::{AlgorithmName, Limit};
use crate::rules::diagnostic::{Diagnostic, Diagnostics};
use crate::rules::source::At;
use crate::rules::written::{Rule, Written};

/// Warns of the limits of a rule that another one makes useless.
pub(super) fn check(rule: &Rule, found: &mut Diagnostics) {
    let limit = |written: &At<Written>| match &written.value {
        Written::Limit(limit) => Some((limit.clone(), written.place)),
        _ => None,
    };
    let limits: Vec<_> = rule.limits.iter().filter_map(limit).collect();
    for (index, (limit, place)) in limits.iter().enumerate() {
        let tighter = limits.iter().enumerate().find(|(other, (tight, _))| {
            // Of two that are the same, the second is the useless one.
            *other != index && covers(tight, limit) && (*other < index || !covers(limit, tight))
        });
        let Some((_, (tight, other))) = tighter else { continue };
        let message = format!("{limit} can never refuse anything: {tight} always does first");
        found.push(
            Diagnostic::warning("never-binds", *place, message)
                .related(*other, "this one is tighter")
                .help("remove it, or make it tighter over its own period"),
        );
    }
}

/// Whether whatever `tight` admits, `loose` admits as well. Errs on the side of no.
fn covers(tight: &Limit, loose: &Limit) -> bool {
    if tight.unit_label() != loose.unit_label() {
        return false;
    }
    let (Some(tight), Some(loose)) = (Pace::of(tight), Pace::of(loose)) else { return false };
    match loose {
        Pace::Meter { burst, amount, nanos } => match tight {
            Pace::Meter { burst: least, amount: slow, nanos: long } => {
                burst >= least && amount * long >= slow * nanos
            }
            // Two windows may meet anywhere.
            Pace::Window { .. } => false,
        },
        Pace::Window { amount, nanos } => {
            tight.most_within(nanos).is_some_and(|most| most <= amount)
        }
    }
}

/// What a limit admits over time.
#[derive(Clone, Copy)]
enum Pace {
    /// `burst` at once, and `amount` every `nanos`.
    Meter { burst: u128, amount: u128, nanos: u128 },
    /// `amount` within `nanos`.
    Window { amount: u128, nanos: u128 },
}

impl Pace {
    fn of(limit: &Limit) -> Option<Pace> {
        let quota = limit.quota();
        let nanos = u128::from(quota.period?.span().as_nanos());
        let amount = u128::from(quota.amount);
        match quota.algorithm {
            AlgorithmName::TokenBucket | AlgorithmName::Gcra | AlgorithmName::LeakyBucket => {
                Some(Pace::Meter { burst: quota.burst.into(), amount, nanos })
            }
            AlgorithmName::FixedWindow
            | AlgorithmName::SlidingWindow
            | AlgorithmName::SlidingLog => Some(Pace::Window { amount, nanos }),
            _ => None,
        }
    }

    /// The most that passes within a length of time, wherever that begins.
    fn most_within(self, length: u128) -> Option<u128> {
        match self {
            Pace::Meter { burst, amount, nanos } => {
                Some(burst.checked_add(amount.checked_mul(length)? / nanos)?)
            }
            Pace::Window { amount, nanos } => amount.checked_mul(length.div_ceil(nanos) + 1),
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
