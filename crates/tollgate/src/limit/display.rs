//! A limit printed back: in the one canonical spelling, which parses to the same limit.

use std::fmt;

use super::Limit;
use super::spec::{Measure, Value};
use super::unit::SpanText;

/// A number as the grammar writes it: `1k`, `5M`, `1500`.
pub(super) struct Number(pub(super) u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000 && n.is_multiple_of(1_000_000) => write!(f, "{}M", n / 1_000_000),
            n if n >= 1_000 && n.is_multiple_of(1_000) => write!(f, "{}k", n / 1_000),
            n => write!(f, "{n}"),
        }
    }
}

/// ```
/// use tollgate::Limit;
/// let limit: Limit = "1_000 / hours SLIDING".parse()?;
/// assert_eq!(limit.to_string(), "1k/h sliding");
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = Number(self.spec.amount);
        match self.spec.measure {
            Measure::Unlimited => f.write_str("unlimited")?,
            Measure::Concurrent => write!(f, "{amount} concurrent")?,
            Measure::Adaptive { min } => {
                write!(f, "adaptive {}..{amount} concurrent", Number(min))?;
            }
            Measure::Rate(period) => {
                write!(f, "{amount}")?;
                if let Some(label) = &self.spec.label {
                    write!(f, " {label}")?;
                }
                write!(f, "/{period}")?;
            }
        }
        for (word, value) in self.spec.options() {
            write!(f, " {}", word.as_str())?;
            match value {
                Value::Nothing => {}
                Value::Number(number) => write!(f, " {}", Number(*number))?,
                Value::Zone(name) => write!(f, " {name}")?,
                Value::Span(span) => write!(f, " {}", SpanText(*span))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn numbers_are_shortened_only_when_exact() {
        let text = |n| Number(n).to_string();
        assert_eq!([text(0), text(999), text(1_000)], ["0", "999", "1k"]);
        assert_eq!([text(1_500), text(15_000), text(5_000_000)], ["1500", "15k", "5M"]);
        assert_eq!(text(1_000_000_000), "1000M");
    }
}
