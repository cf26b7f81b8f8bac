//! Parsers of amounts on the command line: `100k`, `1MiB`, `500ms`, a share from 0 to 1.

use std::time::Duration;

use tollgate::MemoryStore;

const UNITS: [(&str, u64); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// Parses a whole number above 0: `5000`, `100k`, `16M`, `64KiB`.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let wrong = || "write a whole number from 1, such as 5000, 100k, 16M or 64KiB".to_owned();
    let unit = UNITS.into_iter().find_map(|(unit, of)| Some((text.strip_suffix(unit)?, of)));
    let (digits, of) = unit.unwrap_or((text, 1));
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(of).filter(|number| *number > 0).ok_or_else(wrong)
}

/// Parses a whole number above 0 that fits this machine's word size.
pub(crate) fn number_usize(text: &str) -> Result<usize, String> {
    usize::try_from(number(text)?).map_err(|_| "this number is too large for this machine".into())
}

/// Parses the size of the counters' memory in bytes: `512MiB`.
pub(crate) fn memory_size(text: &str) -> Result<u64, String> {
    let wrong = "write a size of at least 16MiB, such as 512MiB or 2GiB";
    number(text).ok().filter(|bytes| *bytes >= MemoryStore::MIN_MEMORY).ok_or_else(|| wrong.into())
}

/// Parses a whole number from 1 to 65535.
pub(crate) fn number_u16(text: &str) -> Result<u16, String> {
    u16::try_from(number(text)?).map_err(|_| "at most 65535".into())
}

/// Parses a length of time: `10s`, `500ms`, `2min`, or 0.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let read: Option<jiff::SignedDuration> = text.parse().ok();
    let read = read.and_then(|span| Duration::try_from(span).ok());
    // A year stands for "unlimited", and adding it to a clock does not overflow.
    read.filter(|span| *span <= Duration::from_secs(366 * 86_400))
        .ok_or_else(|| "write a length of time with its unit, such as 10s, 500ms or 2min".into())
}

/// Parses a length of time above 0.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than 0, such as 10s".into()),
        span => Ok(span),
    }
}

/// Parses a share, from 0 for none to 1 for all.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    read.ok_or_else(|| "write a share from 0 (none) to 1 (all), such as 0.01".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_may_have_a_unit() {
        let read = ["1", "100k", "16M", "64KiB", "1MiB"].map(|text| number(text).unwrap());
        assert_eq!(read, [1, 100_000, 16_000_000, 65_536, 1_048_576]);
        for wrong in ["0", "", "k", "-1", "+1", "1.5k", "ten", "99999999999G", "1 k"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
        assert!(number_u16("65536").is_err());
        assert_eq!(memory_size("512MiB"), Ok(512 << 20));
        assert!(memory_size("15MiB").is_err() && memory_size("much").is_err());
    }

    #[test]
    fn lengths_of_time_have_a_unit() {
        let read = ["10s", "500ms", "2min", "0"].map(|text| duration(text).unwrap().as_millis());
        assert_eq!(read, [10_000, 500, 120_000, 0]);
        for wrong in ["10", "-1s", "soon", "", "2000 years"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn shares_are_parts_of_one() {
        assert_eq!(["0", "0.5", "1"].map(|text| share(text).unwrap()), [0.0, 0.5, 1.0]);
        for wrong in ["1.1", "-0.1", "NaN", "half"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
