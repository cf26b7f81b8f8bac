//! The error of a refused request.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tollgate_core::{Retry, Span, Verdict};

use crate::store::Action;
use crate::{Limit, LimitSummary};

/// A refused request, which was charged nothing.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new("2/s".parse::<Limit>()?);
/// let denied = limiter.check_n(3).unwrap_err();
/// assert_eq!(denied.retry_after, None); // three will never fit into two
/// assert_eq!(denied.to_string(), "over the limit of 2/s: can never pass, it asks for more than the limit holds");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denied {
    /// The limit that has refused the request: of several, the one with the longest wait.
    pub limit: LimitSummary,
    /// The position of that limit among the limiter's limits.
    pub index: usize,
    /// How long to wait until the request passes, unless others are charged meanwhile.
    ///
    /// The time is exact: a nanosecond earlier the request is refused. `None` means never: the request
    /// costs more than the limit can hold.
    pub retry_after: Option<Duration>,
}

impl Denied {
    /// Creates the error of a refusal by the limit at `index`.
    #[inline]
    pub(crate) fn new(limit: LimitSummary, index: usize, retry: Retry) -> Denied {
        let retry_after = match retry {
            Retry::After(span) => Some(span.into()),
            Retry::Now => Some(Duration::ZERO),
            Retry::Never => None,
        };
        Denied { limit, index, retry_after }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(span) => {
                write!(f, "over the limit of {}: retry in {}", self.limit, HumanDuration(span))
            }
            None => write!(
                f,
                "over the limit of {}: can never pass, it asks for more than the limit holds",
                self.limit
            ),
        }
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Denied {}

/// Formats a duration for people: from a minute on in its two largest units, rounded up.
///
/// ```
/// use std::time::Duration;
/// use tollgate::HumanDuration;
/// assert_eq!(HumanDuration(Duration::from_secs(3_601)).to_string(), "1h 1min");
/// assert_eq!(HumanDuration(Duration::from_millis(84)).to_string(), "84ms");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HumanDuration(pub Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
        let seconds = self.0.as_secs() + u64::from(self.0.subsec_nanos() > 0);
        let Some(i) = UNITS[..3].iter().position(|(unit, _)| seconds >= *unit) else {
            return write!(f, "{:?}", self.0);
        };
        let [(large, name), (small, small_name)] = [UNITS[i], UNITS[i + 1]];
        let rounded = seconds.div_ceil(small) * small;
        write!(f, "{}{name}", rounded / large)?;
        match rounded % large / small {
            0 => Ok(()),
            rest => write!(f, " {rest}{small_name}"),
        }
    }
}

/// Combines the verdicts of all limits into the result of a request.
///
/// The result is the tightest verdict, or an error if an [`Action::Take`] was refused.
pub(crate) fn combine(
    action: Action,
    verdicts: &[Verdict],
    limits: &[Limit],
) -> Result<Verdict, Denied> {
    match (action, refusal(verdicts.iter())) {
        (Action::Take { .. }, Some((index, retry))) => {
            Err(Denied::new(limits[index].summary(), index, retry))
        }
        _ => Ok(tightest(verdicts).unwrap_or(UNLIMITED)),
    }
}

/// Converts the verdict of the only limit into the result of a request, as [`combine`] does.
#[inline]
pub(crate) fn conclude(action: Action, verdict: Verdict, limit: &Limit) -> Result<Verdict, Denied> {
    match action {
        Action::Take { .. } if !verdict.allowed => {
            Err(Denied::new(limit.summary(), 0, verdict.retry))
        }
        _ => Ok(verdict),
    }
}

/// The verdict of a limiter without limits.
const UNLIMITED: Verdict = Verdict {
    allowed: true,
    limit: u64::MAX,
    remaining: u64::MAX,
    reset_after: Span::ZERO,
    retry: Retry::Now,
    wait: Span::ZERO,
};

/// Returns the position and the wait of the refusing verdict with the longest wait, if any refuses.
///
/// ```
/// use tollgate::state::refusal;
/// use tollgate::{Check, CounterId, Limit, MemoryStore, Retry};
/// let (store, hour, day): (_, Limit, Limit) = (MemoryStore::new(), "5/h".parse()?, "4/day".parse()?);
/// let checks = [(0, &hour), (1, &day)].map(|(n, limit)| Check::new(CounterId::new(n), "ann", limit, 5));
/// assert_eq!(refusal(store.decide_now(&checks).iter()), Some((1, Retry::Never)));
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
pub fn refusal<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Option<(usize, Retry)> {
    let rank = |retry: Retry| match retry {
        Retry::Now => None,
        Retry::After(span) => Some(span.as_nanos()),
        Retry::Never => Some(u64::MAX),
    };
    let denied = verdicts.enumerate().filter(|(_, verdict)| !verdict.allowed);
    denied.max_by_key(|(_, verdict)| rank(verdict.retry)).map(|(i, verdict)| (i, verdict.retry))
}

/// Returns the verdict with the least left, which is the one to report to the caller.
fn tightest(verdicts: &[Verdict]) -> Option<Verdict> {
    let mut tightest = *verdicts.iter().min_by_key(|verdict| verdict.remaining)?;
    // A request proceeds when the last of its limits allows it.
    tightest.wait = verdicts.iter().map(|verdict| verdict.wait).max()?;
    Some(tightest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (wait, text) in [
            (Duration::from_millis(84), "84ms"),
            (Duration::from_millis(59_500), "1min"),
            (Duration::from_secs(60), "1min"),
            (Duration::from_secs(61), "1min 1s"),
            (Duration::from_nanos(1_199_999_982_058), "20min"),
            (Duration::from_secs(3_601), "1h 1min"),
            (Duration::from_secs(7_199), "2h"),
            (Duration::from_secs(2_634_660), "30d 12h"),
        ] {
            assert_eq!(HumanDuration(wait).to_string(), text);
        }
    }
}
