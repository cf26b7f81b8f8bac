//! Formatting of values for people.

use std::time::Duration;

use tollgate::HumanDuration;
use tollgate_rules::describe_key;

/// Formats a length of time: exactly below a minute, then in its two largest units, rounded up.
/// `250µs`, `1.5s`, `39min 7s`.
pub(crate) fn duration(us: u64) -> String {
    const MINUTE: u64 = 60_000_000;
    match us {
        0 => "0".into(),
        1..1_000 => format!("{us}µs"),
        1_000..1_000_000 => format!("{}ms", decimal(us, 1_000)),
        1_000_000..MINUTE => format!("{}s", decimal(us, 1_000_000)),
        MINUTE.. => HumanDuration(Duration::from_micros(us)).to_string(),
    }
}

/// Formats `us / unit` with as many decimals as needed.
fn decimal(us: u64, unit: u64) -> String {
    let (whole, rest) = (us / unit, us % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let decimals = format!("{rest:0digits$}");
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}

/// Formats an amount; the amount of an unlimited one is `∞`.
pub(crate) fn amount(n: u64) -> String {
    if n == u64::MAX { "∞".into() } else { n.to_string() }
}

/// Formats a key: shortened, with control characters escaped.
pub(crate) fn key(key: &str) -> String {
    let shown = cut(key, 40);
    if shown.is_empty() { "\"\"".into() } else { shown }
}

/// Formats the key of a rule's counter. A rule without `per` has one counter.
pub(crate) fn rule_key(key: &str) -> String {
    match key {
        "" => "all".to_owned(),
        key => self::key(&describe_key(key)),
    }
}

/// Returns whether the key of a rule's counter has an attribute that the request lacks.
pub(crate) fn lacks_attribute(key: &str) -> bool {
    key.split('|').any(|part| part == "%-")
}

/// Shortens a line of a file to fit on a terminal.
pub(crate) fn excerpt(line: &str) -> String {
    cut(line, 100)
}

fn cut(text: &str, most: usize) -> String {
    let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    let mut cut: String = text.chars().take(most).map(plain).collect();
    if text.chars().nth(most).is_some() {
        cut.push('…');
    }
    cut
}

/// Formats a part of a whole: `2.8 %`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Formats a count with its noun: `1 request`, `2 requests`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Formats a number with commas: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn durations_are_readable() {
        let shown = [0, 1, 1_500, 100_000, 1_000_000, 1_234_567].map(duration);
        assert_eq!(shown, ["0", "1µs", "1.5ms", "100ms", "1s", "1.234567s"]);
        let shown = [60_000_000, 90_000_000, 3_600_000_000, 172_800_000_000].map(duration);
        assert_eq!(shown, ["1min", "1min 30s", "1h", "2d"]);
        assert_eq!(duration(2_346_500_000), "39min 7s");
        assert_eq!([1_000_001, 59_999_999].map(duration), ["1.000001s", "59.999999s"]);
        assert_eq!(duration(u64::MAX), "213503982d 9h");
    }

    #[test]
    fn missing_attributes_of_a_key_are_shown() {
        let keys = ["", "%-", "acme|%-", "%25-"];
        assert_eq!(keys.map(rule_key), ["all", "(missing)", "acme|(missing)", "%25-"]);
    }

    #[test]
    fn keys_are_shown_without_control_characters() {
        assert_eq!(key("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(key(""), "\"\"");
        assert_eq!(key(&"x".repeat(100)).chars().count(), 41);
    }
}
