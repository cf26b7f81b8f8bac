//! A measured figure with the bound that it must stay within.

use serde_json::{Value, json};

use crate::text;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FigureUnit {
    /// A number of things, with their name: `requests`.
    Count(&'static str),
    Bytes,
    Microseconds,
}

impl FigureUnit {
    fn name(self) -> &'static str {
        match self {
            FigureUnit::Count(things) => things,
            FigureUnit::Bytes => "bytes",
            FigureUnit::Microseconds => "us",
        }
    }

    /// Formats a figure for people.
    fn format(self, figure: u64) -> String {
        match self {
            FigureUnit::Count(things) => {
                let things = things.strip_suffix('s').filter(|_| figure == 1).unwrap_or(things);
                format!("{} {things}", text::grouped(figure))
            }
            FigureUnit::Bytes if figure >= 1 << 20 => {
                format!("{:.1} MiB", figure as f64 / f64::from(1 << 20))
            }
            FigureUnit::Bytes => format!("{} bytes", text::grouped(figure)),
            FigureUnit::Microseconds => {
                const UNITS: [(f64, &str); 4] =
                    [(3_600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms")];
                let us = figure as f64;
                match UNITS.iter().find(|(length, _)| us >= *length) {
                    Some((length, unit)) => format!("{:.1} {unit}", us / length),
                    None => format!("{figure} µs"),
                }
            }
        }
    }
}

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FigureBound {
    Exactly(u64),
    AtMost(u64),
    AtLeast(u64),
}

impl FigureBound {
    fn admits(self, figure: u64) -> bool {
        match self {
            FigureBound::Exactly(bound) => figure == bound,
            FigureBound::AtMost(bound) => figure <= bound,
            FigureBound::AtLeast(bound) => figure >= bound,
        }
    }

    fn parts(self) -> (&'static str, &'static str, u64) {
        match self {
            FigureBound::Exactly(bound) => ("exactly", "exactly", bound),
            FigureBound::AtMost(bound) => ("at_most", "at most", bound),
            FigureBound::AtLeast(bound) => ("at_least", "at least", bound),
        }
    }
}

/// One line of a report: what was measured, the figure, and its bound.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    subject: String,
    figure: u64,
    unit: FigureUnit,
    bound: FigureBound,
}

impl Measurement {
    pub(super) fn new(
        subject: impl Into<String>,
        figure: u64,
        unit: FigureUnit,
        bound: FigureBound,
    ) -> Measurement {
        Measurement { subject: subject.into(), figure, unit, bound }
    }

    /// Creates the measurement of a count that must be an exact number.
    pub(super) fn exactly(
        subject: impl Into<String>,
        figure: u64,
        things: &'static str,
        bound: u64,
    ) -> Measurement {
        Measurement::new(subject, figure, FigureUnit::Count(things), FigureBound::Exactly(bound))
    }

    /// Creates the measurement of a count that has a maximum.
    pub(super) fn at_most(
        subject: impl Into<String>,
        figure: u64,
        things: &'static str,
        bound: u64,
    ) -> Measurement {
        Measurement::new(subject, figure, FigureUnit::Count(things), FigureBound::AtMost(bound))
    }

    /// Creates the measurement of memory that has a maximum.
    pub(super) fn memory(subject: impl Into<String>, bytes: u64, bound: u64) -> Measurement {
        Measurement::new(subject, bytes, FigureUnit::Bytes, FigureBound::AtMost(bound))
    }

    /// Creates the measurement of a length of time that has a maximum.
    pub(super) fn time(
        subject: impl Into<String>,
        took: std::time::Duration,
        bound: std::time::Duration,
    ) -> Measurement {
        let micros =
            |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bound = FigureBound::AtMost(micros(bound));
        Measurement::new(subject, micros(took), FigureUnit::Microseconds, bound)
    }

    pub(super) fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns whether the figure is within its bound.
    pub(super) fn holds(&self) -> bool {
        self.bound.admits(self.figure)
    }

    /// Returns the figure for people: `500 requests`, `16.3 MiB`.
    pub(super) fn figure_text(&self) -> String {
        self.unit.format(self.figure)
    }

    /// Returns the bound for people: `exactly 500`, `at most 17.6 MiB`.
    pub(super) fn bound_text(&self) -> String {
        let (_, words, bound) = self.bound.parts();
        match self.unit {
            FigureUnit::Count(_) => format!("{words} {}", text::grouped(bound)),
            unit => format!("{words} {}", unit.format(bound)),
        }
    }

    pub(super) fn json(&self) -> Value {
        let (kind, _, bound) = self.bound.parts();
        json!({
            "subject": self.subject,
            "figure": self.figure,
            "unit": self.unit.name(),
            "bound": { "kind": kind, "value": bound },
            "holds": self.holds(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_beyond_its_bound_does_not_hold() {
        for (figure, bound, holds) in [
            (500, FigureBound::Exactly(500), true),
            (499, FigureBound::Exactly(500), false),
            (501, FigureBound::Exactly(500), false),
            (500, FigureBound::AtMost(500), true),
            (501, FigureBound::AtMost(500), false),
            (500, FigureBound::AtLeast(500), true),
            (499, FigureBound::AtLeast(500), false),
        ] {
            let measured = Measurement::new("x", figure, FigureUnit::Bytes, bound);
            assert_eq!(measured.holds(), holds, "{measured:?}");
            assert_eq!(measured.json()["holds"], holds);
        }
    }

    #[test]
    fn figures_and_bounds_are_formatted_in_their_unit() {
        let texts = |measured: Measurement| (measured.figure_text(), measured.bound_text());
        let expected = |figure: &str, bound: &str| (figure.to_owned(), bound.to_owned());
        let count = Measurement::exactly("x", 1_500, "requests", 1_500);
        assert_eq!(texts(count), expected("1,500 requests", "exactly 1,500"));
        let one = Measurement::at_most("x", 1, "calls", 1);
        assert_eq!(texts(one), expected("1 call", "at most 1"));
        let memory = Measurement::memory("x", 3 << 19, 16 << 20);
        assert_eq!(texts(memory), expected("1.5 MiB", "at most 16.0 MiB"));
        let time = std::time::Duration::from_micros;
        let short = Measurement::time("x", time(123_456), time(1_000_000));
        assert_eq!(texts(short), expected("123.5 ms", "at most 1.0 s"));
        let long = Measurement::time("x", time(157), time(86_400_000_000));
        assert_eq!(texts(long), expected("157 µs", "at most 24.0 h"));
    }
}
