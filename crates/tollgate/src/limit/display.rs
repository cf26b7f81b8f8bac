//! Prints a limit in its canonical spelling, which parses to an equal limit.

use std::fmt;

use super::Limit;
use super::spec::{Measure, OptionValue};
use super::unit::SpanText;

/// Displays a number in the spelling of the grammar: `1k`, `5M`, `1500`.
pub(super) struct NumberText(pub(super) u64);

impl fmt::Display for NumberText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000 && n.is_multiple_of(1_000_000) => write!(f, "{}M", n / 1_000_000),
            n if n >= 1_000 && n.is_multiple_of(1_000) => write!(f, "{}k", n / 1_000),
            n => write!(f, "{n}"),
        }
    }
}

/// Writes the canonical text of the limit.
///
/// ```
/// use tollgate::Limit;
/// let limit: Limit = "1_000 / hours SLIDING".parse()?;
/// assert_eq!(limit.to_string(), "1k/h sliding");
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = NumberText(self.spec.amount);
        match self.spec.measure {
            Measure::Unlimited => f.write_str("unlimited")?,
            Measure::Concurrent => write!(f, "{amount} concurrent")?,
            Measure::Adaptive { min } => {
                write!(f, "adaptive {}..{amount} concurrent", NumberText(min))?;
            }
            Measure::Rate(period) => {
                write!(f, "{amount}")?;
                if let Some(label) = &self.spec.label {
                    write!(f, " {label}")?;
                }
                write!(f, "/{period}")?;
            }
        }
        for (keyword, value) in self.spec.options() {
            write!(f, " {}", keyword.as_str())?;
            match value {
                OptionValue::Nothing => {}
                OptionValue::Number(number) => write!(f, " {}", NumberText(*number))?,
                OptionValue::Zone(name) => write!(f, " {name}")?,
                OptionValue::Span(span) => write!(f, " {}", SpanText(*span))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::NumberText;

    #[test]
    fn numbers_are_shortened_only_when_exact() {
        let text = |n| NumberText(n).to_string();
        assert_eq!([text(0), text(999), text(1_000)], ["0", "999", "1k"]);
        assert_eq!([text(1_500), text(15_000), text(5_000_000)], ["1500", "15k", "5M"]);
        assert_eq!(text(1_000_000_000), "1000M");
    }
}
