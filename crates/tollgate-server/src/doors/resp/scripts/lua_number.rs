//! Numbers as the Lua of Redis reads and writes them.

use super::super::keys::KeyError;

/// Reads a number as `tonumber` does. Only decimal notation is accepted, which is what clients send.
pub(in crate::doors::resp) fn parse_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim_ascii();
    let is_decimal =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    text.bytes().all(is_decimal).then(|| text.parse().ok()).flatten()
}

/// Writes a number as C does with `%.<precision>g`.
///
/// Lua's `tostring` has 14 digits, and the arguments of `redis.call` have 17.
pub(in crate::doors::resp) fn format_number(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .into();
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}"))
}

/// Converts a number to an integer argument of a command; a fraction is the error of Redis.
pub(super) fn to_integer(value: f64) -> Result<i64, KeyError> {
    // From here on a number is written with an exponent, which commands reject.
    const MAX_PLAIN: f64 = 1e17;
    match value.fract() == 0.0 && value.abs() < MAX_PLAIN {
        true => Ok(value as i64),
        false => Err(KeyError::NotAnInteger),
    }
}

/// Returns `a % b` as Lua computes it: the result has the sign of `b`.
pub(super) fn modulo(a: f64, b: f64) -> f64 {
    a - (a / b).floor() * b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, precision, expected) in [
            (0.0, 14, "0"),
            (-1.0, 14, "-1"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1_700_000_000.123_456_7, 14, "1700000000.1235"),
            (0.699_999_988_079_071, 14, "0.69999998807907"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (1e17, 17, "1e+17"),
            (12_345_678_901_234_567.0, 17, "12345678901234568"),
            (0.000_01, 14, "1e-05"),
            (0.000_1, 14, "0.0001"),
        ] {
            assert_eq!(format_number(value, precision), expected, "{value} {precision}");
        }
    }

    #[test]
    fn only_decimal_numbers_are_read() {
        assert_eq!(parse_number(b" 1.5e3 "), Some(1_500.0));
        for text in [&b""[..], b"x", b"inf", b"nan", b"0x10", b"1 2", b"\xff"] {
            assert_eq!(parse_number(text), None, "{text:?}");
        }
        assert_eq!(to_integer(-3.0), Ok(-3));
        assert_eq!(to_integer(1.5), Err(KeyError::NotAnInteger));
        assert_eq!(to_integer(1e17), Err(KeyError::NotAnInteger));
        assert_eq!(modulo(-1.0, 10.0), 9.0);
    }
}
