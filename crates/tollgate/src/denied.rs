//! The answer to a request that must not go on.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tollgate_core::{Retry, Span, Verdict};

use crate::store::Action;
use crate::{Limit, Quota};

/// A request was refused and charged nothing.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denied {
    /// The limit that refused: of several, the one that makes the caller wait longest.
    pub limit: Quota,
    /// Its position among the limiter's limits.
    pub index: usize,
    /// After this long the same request passes, if nobody else spends meanwhile, and not a
    /// nanosecond earlier. `None`: never, it asks for more than the limit can hold.
    pub retry_after: Option<Duration>,
}

impl Denied {
    #[inline]
    pub(crate) fn new(limit: Quota, index: usize, retry: Retry) -> Denied {
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
                write!(f, "over the limit of {}: retry in {}", self.limit, Readable(span))
            }
            None => write!(
                f,
                "over the limit of {}: can never pass, it asks for more than the limit holds",
                self.limit
            ),
        }
    }
}

impl Error for Denied {}

/// A wait as people say it: from a minute on in its two largest units, rounded up.
pub(crate) struct Readable(pub(crate) Duration);

impl fmt::Display for Readable {
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

/// The one answer to a request, given what each of its limits says: the tightest verdict, or a
/// refusal if the request asked for leave.
pub(crate) fn answer(
    action: Action,
    verdicts: &[Verdict],
    limits: &[Limit],
) -> Result<Verdict, Denied> {
    match (action, refusal(verdicts.iter())) {
        (Action::Take { .. }, Some((index, retry))) => {
            Err(Denied::new(limits[index].quota(), index, retry))
        }
        _ => Ok(tightest(verdicts).unwrap_or(UNLIMITED)),
    }
}

/// What a limiter with no limit at all answers.
const UNLIMITED: Verdict = Verdict {
    allowed: true,
    limit: u64::MAX,
    remaining: u64::MAX,
    reset_after: Span::ZERO,
    retry: Retry::Now,
    wait: Span::ZERO,
};

/// Among the verdicts of one request: the one that refused it and makes it wait longest.
pub(crate) fn refusal<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Option<(usize, Retry)> {
    let rank = |retry: Retry| match retry {
        Retry::Now => None,
        Retry::After(span) => Some(span.as_nanos()),
        Retry::Never => Some(u64::MAX),
    };
    let denied = verdicts.enumerate().filter(|(_, verdict)| !verdict.allowed);
    denied.max_by_key(|(_, verdict)| rank(verdict.retry)).map(|(i, verdict)| (i, verdict.retry))
}

/// Among the verdicts of one request: what a caller should be told, the one closest to its end.
fn tightest(verdicts: &[Verdict]) -> Option<Verdict> {
    let mut tightest = *verdicts.iter().min_by_key(|verdict| verdict.remaining)?;
    // The caller waits for the slowest of them.
    tightest.wait = verdicts.iter().map(|verdict| verdict.wait).max()?;
    Some(tightest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_read_well() {
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
            assert_eq!(Readable(wait).to_string(), text);
        }
    }
}
