//! Formatting of values for people.

/// Formats a length of time in its largest fitting unit: `250µs`, `1.5s`, `2min`.
pub(crate) fn duration(us: u64) -> String {
    const UNITS: [(u64, &str); 5] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
    ];
    // Minutes and longer only when whole: 90s reads better than 1.5min.
    let fits = |length: u64| match length {
        60_000_000.. => us >= 2 * length && us.is_multiple_of(length) || us == length,
        _ => us >= length,
    };
    match UNITS.into_iter().find(|(length, _)| fits(*length)) {
        Some((length, unit)) => format!("{}{unit}", decimal(us, length)),
        None if us == 0 => "0".into(),
        None => format!("{us}µs"),
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

/// Formats the key of a rule's counter. A rule without `per` has one counter, and `%-` in a key is
/// an attribute that the request lacks.
pub(crate) fn rule_key(key: &str) -> String {
    let part = |part| if part == "%-" { "(none)" } else { part };
    match key {
        "" => "all".to_owned(),
        key => self::key(&key.split('|').map(part).collect::<Vec<_>>().join("|")),
    }
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
    fn durations_are_exact_and_short() {
        let shown = [0, 1, 1_500, 100_000, 1_000_000, 1_234_567, 90_000_000].map(duration);
        assert_eq!(shown, ["0", "1µs", "1.5ms", "100ms", "1s", "1.234567s", "90s"]);
        let shown = [60_000_000, 120_000_000, 3_600_000_000, 172_800_000_000].map(duration);
        assert_eq!(shown, ["1min", "2min", "1h", "2d"]);
        assert_eq!(duration(1_000_001), "1.000001s");
    }

    #[test]
    fn missing_attributes_of_a_key_are_shown() {
        let keys = ["", "%-", "acme|%-", "%25-"];
        assert_eq!(keys.map(rule_key), ["all", "(none)", "acme|(none)", "%25-"]);
    }

    #[test]
    fn keys_are_shown_without_control_characters() {
        assert_eq!(key("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(key(""), "\"\"");
        assert_eq!(key(&"x".repeat(100)).chars().count(), 41);
    }
}
