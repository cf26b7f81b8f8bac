//! Compiles a limit to one of the algorithms of `tollgate_core`, with checked parameters.

use std::sync::Arc;

use tollgate_core::{
    Algorithm, Concurrency, FixedWindow, InvalidLimit as CoreInvalidLimit, MAX_AMOUNT, MAX_SLOTS,
    Meter, Refill, SlidingLog, SlidingSlots, SlidingWindow, Span, Time, WarmUp, Window,
};

use super::InvalidLimit;
use super::calendar::ZonedCalendar;
use super::keyword::Keyword;
use super::spec::{Measure, Spec};
use super::unit::Period;

/// The algorithm of a limit, with its parameters.
///
/// ```
/// use tollgate::{LimitAlgorithm, Limit};
/// let limit: Limit = "100/h log".parse()?;
/// assert!(matches!(limit.algorithm(), LimitAlgorithm::SlidingLog(_)));
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Debug)]
pub enum LimitAlgorithm {
    /// A token bucket, leaky bucket or GCRA.
    Meter(Meter),
    /// A fixed window, aligned to the epoch, the first request or the calendar.
    FixedWindow(FixedWindow),
    /// A sliding window of two counters.
    SlidingWindow(SlidingWindow),
    /// A sliding window of many slots.
    SlidingSlots(SlidingSlots),
    /// A sliding window that stores the time of every request.
    SlidingLog(SlidingLog),
    /// A rate that starts slowly after an idle time.
    WarmUp(WarmUp),
    /// A fixed number of permits.
    Concurrent(Concurrency),
    /// A number of permits that a controller adapts.
    Adaptive(AdaptiveRange),
    /// No limit.
    Unlimited,
}

/// The parameters of an adaptive limit: its bounds, lease and controller.
///
/// ```
/// use tollgate::{LimitAlgorithm, Limit};
/// let limit = Limit::adaptive(20, 500)?;
/// let LimitAlgorithm::Adaptive(range) = limit.algorithm() else { unreachable!() };
/// assert_eq!((range.min, range.max), (20, 500));
/// # Ok::<(), tollgate::limit::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdaptiveRange {
    /// The minimum number of permits; at least 1.
    pub min: u64,
    /// The maximum number of permits.
    pub max: u64,
    /// The time that a permit lasts without release or renewal.
    pub lease: Span,
    /// The controller that chooses the number of permits.
    pub controller: ControllerKind,
}

/// The controller that chooses how many permits an adaptive limit has.
///
/// ```
/// use tollgate::limit::ControllerKind;
/// use tollgate::{LimitAlgorithm, Limit};
/// let limit: Limit = "adaptive 20..500 concurrent vegas".parse()?;
/// let LimitAlgorithm::Adaptive(range) = limit.algorithm() else { unreachable!() };
/// assert_eq!(range.controller, ControllerKind::Vegas);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ControllerKind {
    /// The default: throughput times the latency without queueing.
    #[default]
    Flow,
    /// `aimd`: one more after a response, a tenth less after a drop.
    Aimd,
    /// `vegas`: compares latency with its minimum, as in Netflix's concurrency-limits.
    Vegas,
    /// `gradient2`: compares latency with its average, as in Netflix's concurrency-limits.
    Gradient2,
}

impl LimitAlgorithm {
    pub(super) fn capacity(&self) -> u64 {
        match self {
            LimitAlgorithm::Meter(meter) => meter.capacity(),
            LimitAlgorithm::FixedWindow(window) => window.capacity(),
            LimitAlgorithm::SlidingWindow(window) => window.capacity(),
            LimitAlgorithm::SlidingSlots(slots) => slots.capacity(),
            LimitAlgorithm::SlidingLog(log) => log.capacity(),
            LimitAlgorithm::WarmUp(warm_up) => warm_up.capacity(),
            LimitAlgorithm::Concurrent(concurrency) => concurrency.capacity(),
            LimitAlgorithm::Adaptive(range) => range.max,
            LimitAlgorithm::Unlimited => u64::MAX,
        }
    }
}

/// Compiles a canonical spec; `algorithm` is the keyword that names its algorithm.
pub(super) fn compile(spec: &Spec, algorithm: Keyword) -> Result<LimitAlgorithm, InvalidLimit> {
    let amount = spec.amount;
    match spec.measure {
        Measure::Unlimited => Ok(LimitAlgorithm::Unlimited),
        Measure::Concurrent => {
            Ok(LimitAlgorithm::Concurrent(Concurrency::new(amount, spec.lease())?))
        }
        Measure::Adaptive { min } => {
            if min == 0 || min > amount {
                return Err(CoreInvalidLimit::Bounds { min, max: amount }.into());
            }
            Concurrency::new(amount, spec.lease())?; // An adaptive limit has the bounds of a concurrent one.
            let controller = match spec.controller()? {
                Some(Keyword::Aimd) => ControllerKind::Aimd,
                Some(Keyword::Vegas) => ControllerKind::Vegas,
                Some(Keyword::Gradient2) => ControllerKind::Gradient2,
                _ => ControllerKind::Flow,
            };
            Ok(LimitAlgorithm::Adaptive(AdaptiveRange {
                min,
                max: amount,
                lease: spec.lease(),
                controller,
            }))
        }
        Measure::Rate(period) => rate(spec, algorithm, period),
    }
}

fn rate(spec: &Spec, algorithm: Keyword, period: Period) -> Result<LimitAlgorithm, InvalidLimit> {
    let (amount, length) = (spec.amount, period.span());
    if amount == 0 {
        return Err(CoreInvalidLimit::ZeroAmount.into()); // Blames the amount, not the burst, which defaults to it.
    }
    match algorithm {
        Keyword::Fixed if spec.has(Keyword::FirstHit) => fixed(spec, Window::FirstHit { length }),
        Keyword::Fixed => fixed(spec, Window::epoch(length)),
        Keyword::Calendar => {
            let anchor = spec.number(Keyword::Anchor).unwrap_or(1);
            let calendar = ZonedCalendar::new(period, spec.zone().unwrap_or("UTC"), anchor)?;
            fixed(spec, Window::Calendar(Arc::new(calendar)))
        }
        Keyword::Sliding => match spec.number(Keyword::Slots) {
            Some(slots) => {
                in_range(Keyword::Slots, slots, 2, u64::from(MAX_SLOTS))?;
                Ok(LimitAlgorithm::SlidingSlots(SlidingSlots::new(amount, length, slots as u32)?))
            }
            None => {
                let window = SlidingWindow::new(amount, length)?;
                let counts = spec.has(Keyword::CountDenied);
                Ok(LimitAlgorithm::SlidingWindow(if counts {
                    window.count_denied()
                } else {
                    window
                }))
            }
        },
        Keyword::Log => {
            let gap = spec.span(Keyword::MinGap).unwrap_or(Span::ZERO);
            let log = SlidingLog::new(amount, length)?.min_gap(gap)?;
            let counts = spec.has(Keyword::CountDenied);
            Ok(LimitAlgorithm::SlidingLog(if counts { log.count_denied() } else { log }))
        }
        Keyword::WarmUp => {
            let warm_up = spec.span(Keyword::WarmUp).unwrap_or(Span::ZERO);
            Ok(LimitAlgorithm::WarmUp(WarmUp::new(amount, length, warm_up)?))
        }
        _ => counter(spec, algorithm, length),
    }
}

fn fixed(spec: &Spec, window: Window) -> Result<LimitAlgorithm, InvalidLimit> {
    let window = FixedWindow::new(spec.amount, window)?;
    let counts = spec.has(Keyword::CountDenied);
    Ok(LimitAlgorithm::FixedWindow(if counts { window.count_denied() } else { window }))
}

fn counter(spec: &Spec, algorithm: Keyword, length: Span) -> Result<LimitAlgorithm, InvalidLimit> {
    let mut meter = Meter::new(spec.amount, length, spec.burst())?;
    if algorithm == Keyword::Leaky {
        let free = spec.number(Keyword::Free).unwrap_or(1);
        in_range(Keyword::Free, free, 1, MAX_AMOUNT)?;
        meter = meter.smooth_after(free);
    }
    if spec.has(Keyword::Interval) {
        meter = meter.refill(Refill::Interval { phase: Time::EPOCH });
    }
    if spec.has(Keyword::PayLater) {
        meter = meter.pay_later();
    }
    if let Some(tokens) = spec.number(Keyword::Initial) {
        meter = meter.initial(tokens)?;
    }
    Ok(LimitAlgorithm::Meter(meter))
}

pub(super) fn in_range(
    keyword: Keyword,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), InvalidLimit> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(InvalidLimit::OutOfRange { option: keyword.as_str(), value, least, most }),
    }
}

/// Returns how long an exhausted key takes until its state equals that of a new key.
pub(super) fn fill_time(spec: &Spec, algorithm: &LimitAlgorithm) -> Span {
    let length = match spec.measure {
        Measure::Rate(period) => period.span(),
        _ => Span::ZERO,
    };
    match algorithm {
        LimitAlgorithm::Meter(meter) if spec.has(Keyword::Interval) => {
            length.times(meter.fill_time().as_nanos().div_ceil(length.as_nanos()))
        }
        LimitAlgorithm::Meter(meter) => meter.fill_time(),
        LimitAlgorithm::FixedWindow(window) => window.fill_time(),
        LimitAlgorithm::SlidingWindow(_) => length.times(2),
        LimitAlgorithm::SlidingSlots(_) => {
            let slots = spec.number(Keyword::Slots).unwrap_or(1).max(1);
            length + Span::from_nanos(length.as_nanos() / slots)
        }
        LimitAlgorithm::SlidingLog(_) => length,
        // Paying off the amount takes at most half a warm-up longer than when warm. After that
        // the key must idle for the warm-up time to be cold again.
        LimitAlgorithm::WarmUp(_) => {
            let warm_up = spec.span(Keyword::WarmUp).unwrap_or(Span::ZERO);
            length + warm_up + Span::from_nanos(warm_up.as_nanos().div_ceil(2))
        }
        LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_) => spec.lease(),
        LimitAlgorithm::Unlimited => Span::ZERO,
    }
}
