//! Texts of limits.

use std::time::Duration;

use crate::limit::ParseLimitError;
use crate::testing::ManualClock;
use crate::{Limit, Limiter};

/// Longer waits are not simulated.
const MAX_WAIT: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Reads any text as a limit, prints it, reads it again, and checks its decisions.
pub fn limit(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let limit = match text.parse::<Limit>() {
        Ok(limit) => limit,
        Err(error) => return check_error(&error, text),
    };
    let printed = limit.to_string();
    let again: Limit = printed.parse().unwrap_or_else(|error| panic!("{printed:?}: {error}"));
    assert_eq!((&again, again.to_string()), (&limit, printed));
    assert_eq!(again.summary(), limit.summary());
    check_retry(limit, text.len() as u64);
}

fn check_error(error: &ParseLimitError, text: &str) {
    assert!(error.input.get(error.at..error.at + error.len).is_some(), "{error:?}");
    assert!(text.is_char_boundary(error.at), "{error:?}");
    assert!((1..=error.input.chars().count() + 1).contains(&error.column()), "{error:?}");
    assert!(!error.message.is_empty());
    assert!(!error.to_string().contains(|c: char| c.is_control() && c != '\n'), "{error:?}");
}

/// Checks that a refused request passes after its retry, and not a nanosecond earlier.
fn check_retry(limit: Limit, cost: u64) {
    let clock = ManualClock::new();
    let limiter = Limiter::builder().limit(limit.clone()).clock(&clock).build();
    for _ in 0..20 {
        let Err(denied) = limiter.check_n(cost) else { continue };
        let Some(retry) = denied.retry_after.filter(|retry| *retry < MAX_WAIT) else { return };
        let early = retry.checked_sub(Duration::from_nanos(1));
        if let Some(early) = early.filter(|_| !limit.to_string().contains("count_denied")) {
            clock.advance(early);
            assert!(limiter.check_n(cost).is_err(), "{limit}: {cost} passes before {retry:?}");
            clock.advance(Duration::from_nanos(1));
        } else {
            clock.advance(retry);
        }
        assert!(limiter.check_n(cost).is_ok(), "{limit}: {cost} does not pass after {retry:?}");
    }
}
