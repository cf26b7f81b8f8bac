//! Numbers of the grammar: `10`, `1_000`, `10k`, `5M`.

/// The reason why a text is not a number of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberError {
    /// Not similar to a number.
    Malformed,
    /// A minus sign before digits.
    Negative,
    /// A decimal fraction, as numerator and denominator in lowest terms.
    Fraction(u64, u64),
    /// Commas between digits, as in `1,000`; with the value.
    Commas(u64),
    /// A number above 64 bits.
    TooLarge,
    /// An unknown suffix; with the length of the number before it in bytes.
    Suffix(usize),
}

use NumberError::{Commas, Fraction, Malformed, Negative, Suffix, TooLarge};

/// Parses a whole number with an optional suffix `k` or `M`.
pub(super) fn parse(text: &str) -> Result<u64, NumberError> {
    let (digits, rest) = split(text);
    if digits.is_empty() {
        let negative = rest.strip_prefix('-').is_some_and(|rest| !split(rest).0.is_empty());
        return Err(if negative { Negative } else { Malformed });
    }
    if digits.starts_with('_') || digits.ends_with('_') {
        return Err(Malformed);
    }
    let value = digits_value(digits)?;
    if let Some(factor) = factor(rest) {
        return value.checked_mul(factor).ok_or(TooLarge);
    }
    if let Some(decimals) = rest.strip_prefix('.') {
        return Err(fraction(digits, decimals));
    }
    if rest.starts_with(',') {
        let plain: String = text.chars().filter(|c| *c != ',').collect();
        return Err(parse(&plain).map_or(Malformed, Commas));
    }
    Err(Suffix(digits.len()))
}

/// Splits `text` after its leading digits and underscores.
pub(super) fn split(text: &str) -> (&str, &str) {
    let other = |c: char| !c.is_ascii_digit() && c != '_';
    text.split_at(text.find(other).unwrap_or(text.len()))
}

/// Returns the value of `digits`, ignoring underscores.
pub(super) fn digits_value(digits: &str) -> Result<u64, NumberError> {
    let mut digits = digits.bytes().filter(u8::is_ascii_digit);
    let value = digits
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    value.ok_or(TooLarge)
}

/// Returns the factor of a suffix.
fn factor(suffix: &str) -> Option<u64> {
    match suffix {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        _ => None,
    }
}

/// Returns the error for `digits.decimals`, with the exact fraction if it can be computed.
fn fraction(digits: &str, decimals: &str) -> NumberError {
    let (decimals, suffix) = split(decimals);
    let exact = || {
        let scale = 10u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
        let value = digits_value(digits)
            .ok()?
            .checked_mul(scale)?
            .checked_add(digits_value(decimals).ok()?)?;
        let value = value.checked_mul(factor(suffix)?)?;
        let divisor = gcd(value, scale);
        Some(Fraction(value / divisor, scale / divisor))
    };
    match decimals.is_empty() || decimals.contains('_') {
        true => Malformed,
        false => exact().unwrap_or(Malformed),
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed() {
        for (text, value) in
            [("0", 0), ("10", 10), ("1_000", 1_000), ("10k", 10_000), ("3K", 3_000)]
        {
            assert_eq!(parse(text), Ok(value), "{text}");
        }
        assert_eq!(parse("5M"), Ok(5_000_000));
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn other_texts_are_errors() {
        for (text, reason) in [
            ("", Malformed),
            ("ten", Malformed),
            ("_1", Malformed),
            ("1_", Malformed),
            ("1.", Malformed),
            ("1.5x", Malformed),
            ("-", Malformed),
            ("-5", Negative),
            ("0.5", Fraction(1, 2)),
            ("0.0", Fraction(0, 1)),
            ("1.5k", Fraction(1_500, 1)),
            ("1,000", Commas(1_000)),
            ("18446744073709551616", TooLarge),
            ("18446744073709551615k", TooLarge),
            ("5m", Suffix(1)),
            ("10s", Suffix(2)),
            ("1.00000000000000000000000000001", Malformed),
        ] {
            assert_eq!(parse(text), Err(reason), "{text}");
        }
    }
}
