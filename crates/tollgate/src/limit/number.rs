//! Numbers of the grammar: `10`, `1_000`, `10k`, `5M`.

/// Why a word is no number, with what was found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotANumber {
    /// Nothing like one.
    Other,
    /// A minus sign before digits.
    Negative,
    /// A decimal fraction, in lowest terms.
    Fraction(u64, u64),
    /// `1,000`
    Commas(u64),
    /// Does not fit 64 bits.
    TooLarge,
    /// A number of that many bytes, and something attached to it.
    Followed(usize),
}

use NotANumber::{Commas, Followed, Fraction, Negative, Other, TooLarge};

pub(super) fn parse(text: &str) -> Result<u64, NotANumber> {
    let (digits, rest) = split(text);
    if digits.is_empty() {
        let negative = rest.strip_prefix('-').is_some_and(|rest| !split(rest).0.is_empty());
        return Err(if negative { Negative } else { Other });
    }
    if digits.starts_with('_') || digits.ends_with('_') {
        return Err(Other);
    }
    let value = whole(digits)?;
    if let Some(factor) = factor(rest) {
        return value.checked_mul(factor).ok_or(TooLarge);
    }
    if let Some(decimals) = rest.strip_prefix('.') {
        return Err(fraction(digits, decimals));
    }
    if rest.starts_with(',') {
        let plain: String = text.chars().filter(|c| *c != ',').collect();
        return Err(parse(&plain).map_or(Other, Commas));
    }
    Err(Followed(digits.len()))
}

/// The digits at the start, and the rest.
pub(super) fn split(text: &str) -> (&str, &str) {
    let other = |c: char| !c.is_ascii_digit() && c != '_';
    text.split_at(text.find(other).unwrap_or(text.len()))
}

/// The value of digits, with underscores among them.
pub(super) fn whole(digits: &str) -> Result<u64, NotANumber> {
    let mut digits = digits.bytes().filter(u8::is_ascii_digit);
    let value = digits
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    value.ok_or(TooLarge)
}

fn factor(suffix: &str) -> Option<u64> {
    match suffix {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        _ => None,
    }
}

/// What `digits.decimals`, a suffix perhaps included, amounts to.
fn fraction(digits: &str, decimals: &str) -> NotANumber {
    let (decimals, suffix) = split(decimals);
    let exact = || {
        let scale = 10u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
        let value = whole(digits).ok()?.checked_mul(scale)?.checked_add(whole(decimals).ok()?)?;
        let value = value.checked_mul(factor(suffix)?)?;
        let divisor = gcd(value, scale);
        Some(Fraction(value / divisor, scale / divisor))
    };
    match decimals.is_empty() || decimals.contains('_') {
        true => Other,
        false => exact().unwrap_or(Other),
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
    fn numbers() {
        for (text, value) in
            [("0", 0), ("10", 10), ("1_000", 1_000), ("10k", 10_000), ("3K", 3_000)]
        {
            assert_eq!(parse(text), Ok(value), "{text}");
        }
        assert_eq!(parse("5M"), Ok(5_000_000));
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn not_numbers() {
        for (text, why) in [
            ("", Other),
            ("ten", Other),
            ("_1", Other),
            ("1_", Other),
            ("1.", Other),
            ("1.5x", Other),
            ("-", Other),
            ("-5", Negative),
            ("0.5", Fraction(1, 2)),
            ("0.0", Fraction(0, 1)),
            ("1.5k", Fraction(1_500, 1)),
            ("1,000", Commas(1_000)),
            ("18446744073709551616", TooLarge),
            ("18446744073709551615k", TooLarge),
            ("5m", Followed(1)),
            ("10s", Followed(2)),
            ("1.00000000000000000000000000001", Other),
        ] {
            assert_eq!(parse(text), Err(why), "{text}");
        }
    }
}
