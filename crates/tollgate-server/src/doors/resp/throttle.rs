//! The arguments of `CL.THROTTLE` and `THROTTLE`: `key max_burst count period [quantity]`.

use super::command::RespCommand;
use crate::decisions::{ThrottleArguments, ThrottleDialect};

/// Reads the arguments of a command; errors have the texts of the original servers.
pub(super) fn read(
    dialect: ThrottleDialect,
    command: &RespCommand<'_>,
) -> Result<ThrottleArguments, String> {
    const NAMES: [&str; 4] = ["max_burst", "count_per_period", "period", "quantity"];
    let mut numbers = [0, 0, 0, 1];
    for (index, number) in numbers.iter_mut().enumerate().take(command.len().min(6) - 2) {
        *number = integer(command.get(index + 2)).ok_or_else(|| match dialect {
            ThrottleDialect::RedisCell => format!(
                "ERR Cell error: Store error: Couldn't parse as integer: {}",
                command.display(index + 2)
            ),
            ThrottleDialect::Throttlecrab => format!("ERR invalid {}", NAMES[index]),
        })?;
    }
    let [max_burst, count, period, quantity] = numbers;
    ThrottleArguments::new(dialect, max_burst, count, period, quantity)
}

/// Parses an integer argument.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    match text {
        [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
        text => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}
