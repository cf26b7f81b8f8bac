//! Periods and durations as rules write them.

/// Returns a length of time in the largest unit that divides it: `min`, `15min`, `90s`.
///
/// Months and years are not used: outside a calendar they are 30 and 365 days.
pub(super) fn period(seconds: u64) -> String {
    const UNITS: [(u64, &str, &str); 5] = [
        (604_800, "week", "w"),
        (86_400, "day", "d"),
        (3_600, "h", "h"),
        (60, "min", "min"),
        (1, "s", "s"),
    ];
    let fits = |(length, ..): &&(u64, &str, &str)| seconds.is_multiple_of(*length);
    match UNITS.iter().find(fits) {
        Some((length, alone, _)) if seconds == *length => (*alone).to_owned(),
        Some((length, _, counted)) => format!("{}{counted}", seconds / length),
        None => format!("{seconds}s"),
    }
}

/// Returns the time that `amount` thousandths take at `per_second` thousandths a second, rounded up
/// by less than a thousandth.
pub(super) fn time_of(amount: u64, per_second: u64) -> String {
    const UNITS: [(u128, &str); 4] =
        [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let (amount, per_second) = (u128::from(amount), u128::from(per_second.max(1)));
    let nanos = amount * 1_000_000_000;
    let exact = |length: u128| nanos.is_multiple_of(per_second * length);
    let close = |length: u128| length <= 1_000_000 && per_second * length <= 1_000_000_000;
    let (length, unit) = UNITS
        .into_iter()
        .find(|(length, _)| exact(*length))
        .or_else(|| UNITS.into_iter().find(|(length, _)| close(*length)))
        .unwrap_or((1, "ns"));
    format!("{}{unit}", nanos.div_ceil(per_second * length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_written_in_their_largest_unit() {
        let written = [1, 10, 60, 90, 900, 3_600, 86_400, 172_800, 604_800].map(period);
        assert_eq!(written, ["s", "10s", "min", "90s", "15min", "h", "day", "2d", "week"]);
    }

    #[test]
    fn times_are_exact_where_they_can_be() {
        assert_eq!(time_of(5_000, 10_000), "500ms");
        assert_eq!(time_of(20_000, 10_000), "2s");
        assert_eq!(time_of(5_000, 30_000), "166667us");
        assert_eq!(time_of(1_000, 116), "8621ms");
        assert_eq!(time_of(5_000, 3_000_000), "1666667ns");
    }
}
