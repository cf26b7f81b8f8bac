//! The error of a limit with invalid parameters.

use core::fmt;

/// The error of a limit with invalid parameters. The message says what is wrong and what to use.
///
/// ```
/// use tollgate_core::{Meter, Span};
/// let error = Meter::new(0, Span::from_secs(1), 1).unwrap_err();
/// assert_eq!(error.to_string(), "a limit of 0 would never let anything pass: use at least 1");
/// assert_eq!(format!("{error:?}"), error.to_string());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// The amount is zero.
    ZeroAmount,
    /// The period is zero.
    ZeroPeriod,
    /// The burst is zero.
    ZeroBurst,
    /// An amount, burst or cost factor is above [`MAX_AMOUNT`](crate::MAX_AMOUNT).
    AmountTooLarge(u64),
    /// Refilling from empty would take longer than [`MAX_FILL`](crate::MAX_FILL).
    FillsTooSlowly,
    /// The period is longer than [`MAX_FILL`](crate::MAX_FILL).
    PeriodTooLong,
    /// The bucket starts with more tokens than it holds.
    InitialAboveBurst {
        /// The tokens at the start.
        initial: u64,
        /// The tokens that the bucket holds.
        burst: u64,
    },
    /// The sliding window has fewer than two slots, so it would not slide.
    TooFewSlots(u32),
    /// The sliding window has more than [`MAX_SLOTS`](crate::MAX_SLOTS) slots.
    TooManySlots(u32),
    /// The window is not a whole multiple of its slots.
    UnevenSlots(u32),
    /// The minimum gap is longer than the window.
    GapAboveWindow,
    /// The warm-up takes no time, or its cold factor is below two.
    NoWarmUp,
    /// The bounds of an adaptive limit are zero or in the wrong order.
    Bounds {
        /// The lower bound.
        min: u64,
        /// The upper bound.
        max: u64,
    },
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            InvalidLimit::ZeroAmount => {
                write!(f, "a limit of 0 would never let anything pass: use at least 1")
            }
            InvalidLimit::ZeroPeriod => write!(f, "a period of 0 has no rate: use at least 1ns"),
            InvalidLimit::ZeroBurst => {
                write!(f, "a burst of 0 would never let anything pass: use at least 1")
            }
            InvalidLimit::AmountTooLarge(n) => {
                write!(f, "{n} is above the largest amount, {}", crate::MAX_AMOUNT)
            }
            InvalidLimit::FillsTooSlowly => write!(
                f,
                "refilling from empty would take more than 146 years: lower the burst or raise the rate"
            ),
            InvalidLimit::PeriodTooLong => write!(f, "a period is at most 146 years"),
            InvalidLimit::InitialAboveBurst { initial, burst } => {
                write!(f, "{initial} tokens at the start do not fit a burst of {burst}")
            }
            InvalidLimit::TooFewSlots(n) => {
                write!(f, "a window of {n} slots does not slide: use at least 2")
            }
            InvalidLimit::TooManySlots(n) => {
                write!(f, "{n} slots: use at most {}", crate::MAX_SLOTS)
            }
            InvalidLimit::UnevenSlots(n) => {
                write!(f, "the window does not divide into {n} equal slots of whole nanoseconds")
            }
            InvalidLimit::GapAboveWindow => {
                write!(
                    f,
                    "a minimum gap longer than the window would be the real limit: shorten it"
                )
            }
            InvalidLimit::NoWarmUp => {
                write!(f, "a warm-up needs a period above 0 and a cold factor of at least 2")
            }
            InvalidLimit::Bounds { min, max } => {
                write!(f, "bounds {min}..{max}: both at least 1, the first not above the second")
            }
        }
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for InvalidLimit {}
