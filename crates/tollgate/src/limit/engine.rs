//! What a limit runs on: one of the algorithms of `tollgate_core`, its parameters checked.

use std::sync::Arc;

use tollgate_core::{
    Algorithm, Concurrency, FixedWindow, InvalidLimit as Bounds, MAX_AMOUNT, MAX_SLOTS, Meter,
    Refill, SlidingLog, SlidingSlots, SlidingWindow, Span, Time, WarmUp, Window,
};

use super::InvalidLimit;
use super::calendar::ZonedCalendar;
use super::spec::{Measure, Spec};
use super::unit::Period;
use super::words::Word;

/// The algorithm of a limit, with its parameters.
///
/// ```
/// use tollgate::{Engine, Limit};
/// let limit: Limit = "100/h log".parse()?;
/// assert!(matches!(limit.engine(), Engine::SlidingLog(_)));
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Engine {
    /// Token bucket, leaky bucket, GCRA.
    Meter(Meter),
    /// Windows of the epoch, the first hit or the calendar.
    FixedWindow(FixedWindow),
    /// A sliding window of two counters.
    SlidingWindow(SlidingWindow),
    /// A sliding window of many slots.
    SlidingSlots(SlidingSlots),
    /// A sliding window that remembers every request.
    SlidingLog(SlidingLog),
    /// A rate that warms up.
    WarmUp(WarmUp),
    /// So many at a time.
    Concurrent(Concurrency),
    /// So many at a time, a controller choosing how many.
    Adaptive(AdaptiveRange),
    /// Everything passes.
    Unlimited,
}

/// Between what bounds an adaptive limit moves.
///
/// ```
/// use tollgate::{Engine, Limit};
/// let limit = Limit::adaptive(20, 500)?;
/// let Engine::Adaptive(range) = limit.engine() else { unreachable!() };
/// assert_eq!((range.min, range.max), (20, 500));
/// # Ok::<(), tollgate::limit::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdaptiveRange {
    /// The fewest at a time; at least 1.
    pub min: u64,
    /// The most at a time.
    pub max: u64,
    /// How long a holder that is not heard of keeps its place.
    pub lease: Span,
    /// Who chooses how many.
    pub by: Steering,
}

/// Who chooses how many at a time an adaptive limit allows.
///
/// ```
/// use tollgate::limit::Steering;
/// use tollgate::{Engine, Limit};
/// let limit: Limit = "adaptive 20..500 concurrent vegas".parse()?;
/// let Engine::Adaptive(range) = limit.engine() else { unreachable!() };
/// assert_eq!(range.by, Steering::Vegas);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Steering {
    /// Ours: what flows, times how long it takes without a queue.
    #[default]
    Flow,
    /// `aimd`: one more for an answer, a tenth less for a drop.
    Aimd,
    /// `vegas`: latency against the best seen, as Netflix has it.
    Vegas,
    /// `gradient2`: latency against its average, as Netflix has it.
    Gradient2,
}

impl Engine {
    pub(super) fn capacity(&self) -> u64 {
        match self {
            Engine::Meter(meter) => meter.capacity(),
            Engine::FixedWindow(window) => window.capacity(),
            Engine::SlidingWindow(window) => window.capacity(),
            Engine::SlidingSlots(slots) => slots.capacity(),
            Engine::SlidingLog(log) => log.capacity(),
            Engine::WarmUp(warm_up) => warm_up.capacity(),
            Engine::Concurrent(concurrency) => concurrency.capacity(),
            Engine::Adaptive(range) => range.max,
            Engine::Unlimited => u64::MAX,
        }
    }
}

/// The engine of a canonical spec whose algorithm is `algorithm`.
pub(super) fn compile(spec: &Spec, algorithm: Word) -> Result<Engine, InvalidLimit> {
    let amount = spec.amount;
    match spec.measure {
        Measure::Unlimited => Ok(Engine::Unlimited),
        Measure::Concurrent => Ok(Engine::Concurrent(Concurrency::new(amount, spec.lease())?)),
        Measure::Adaptive { min } => {
            if min == 0 || min > amount {
                return Err(Bounds::Bounds { min, max: amount }.into());
            }
            Concurrency::new(amount, spec.lease())?; // It has the same bounds.
            let by = match spec.controller()? {
                Some(Word::Aimd) => Steering::Aimd,
                Some(Word::Vegas) => Steering::Vegas,
                Some(Word::Gradient2) => Steering::Gradient2,
                _ => Steering::Flow,
            };
            Ok(Engine::Adaptive(AdaptiveRange { min, max: amount, lease: spec.lease(), by }))
        }
        Measure::Rate(period) => rate(spec, algorithm, period),
    }
}

fn rate(spec: &Spec, algorithm: Word, period: Period) -> Result<Engine, InvalidLimit> {
    let (amount, length) = (spec.amount, period.span());
    if amount == 0 {
        return Err(Bounds::ZeroAmount.into()); // Not the burst, which is the same by default.
    }
    match algorithm {
        Word::Fixed if spec.has(Word::FirstHit) => fixed(spec, Window::FirstHit { length }),
        Word::Fixed => fixed(spec, Window::epoch(length)),
        Word::Calendar => {
            let anchor = spec.number(Word::Anchor).unwrap_or(1);
            let calendar = ZonedCalendar::new(period, spec.zone().unwrap_or("UTC"), anchor)?;
            fixed(spec, Window::Calendar(Arc::new(calendar)))
        }
        Word::Sliding => match spec.number(Word::Slots) {
            Some(slots) => {
                in_range(Word::Slots, slots, 2, u64::from(MAX_SLOTS))?;
                Ok(Engine::SlidingSlots(SlidingSlots::new(amount, length, slots as u32)?))
            }
            None => {
                let window = SlidingWindow::new(amount, length)?;
                let counts = spec.has(Word::CountDenied);
                Ok(Engine::SlidingWindow(if counts { window.count_denied() } else { window }))
            }
        },
        Word::Log => {
            let gap = spec.span(Word::MinGap).unwrap_or(Span::ZERO);
            let log = SlidingLog::new(amount, length)?.min_gap(gap)?;
            let counts = spec.has(Word::CountDenied);
            Ok(Engine::SlidingLog(if counts { log.count_denied() } else { log }))
        }
        Word::WarmUp => {
            let warm_up = spec.span(Word::WarmUp).unwrap_or(Span::ZERO);
            Ok(Engine::WarmUp(WarmUp::new(amount, length, warm_up)?))
        }
        _ => bucket(spec, algorithm, length),
    }
}

fn fixed(spec: &Spec, window: Window) -> Result<Engine, InvalidLimit> {
    let window = FixedWindow::new(spec.amount, window)?;
    let counts = spec.has(Word::CountDenied);
    Ok(Engine::FixedWindow(if counts { window.count_denied() } else { window }))
}

fn bucket(spec: &Spec, algorithm: Word, length: Span) -> Result<Engine, InvalidLimit> {
    let mut meter = Meter::new(spec.amount, length, spec.burst())?;
    if algorithm == Word::Leaky {
        let free = spec.number(Word::Free).unwrap_or(1);
        in_range(Word::Free, free, 1, MAX_AMOUNT)?;
        meter = meter.smooth_after(free);
    }
    if spec.has(Word::Interval) {
        meter = meter.refill(Refill::Interval { phase: Time::EPOCH });
    }
    if spec.has(Word::PayLater) {
        meter = meter.pay_later();
    }
    if let Some(tokens) = spec.number(Word::Initial) {
        meter = meter.initial(tokens)?;
    }
    Ok(Engine::Meter(meter))
}

pub(super) fn in_range(word: Word, value: u64, least: u64, most: u64) -> Result<(), InvalidLimit> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(InvalidLimit::OutOfRange { option: word.as_str(), value, least, most }),
    }
}

/// How long from empty until as good as new.
pub(super) fn fill_time(spec: &Spec, engine: &Engine) -> Span {
    let length = match spec.measure {
        Measure::Rate(period) => period.span(),
        _ => Span::ZERO,
    };
    match engine {
        Engine::Meter(meter) if spec.has(Word::Interval) => {
            length.times(meter.fill_time().as_nanos().div_ceil(length.as_nanos()))
        }
        Engine::Meter(meter) => meter.fill_time(),
        Engine::FixedWindow(window) => window.fill_time(),
        Engine::SlidingWindow(_) => length.times(2),
        Engine::SlidingSlots(_) => {
            let slots = spec.number(Word::Slots).unwrap_or(1).max(1);
            length + Span::from_nanos(length.as_nanos() / slots)
        }
        Engine::SlidingLog(_) => length,
        // The amount is paid off, at most half a warm-up slower than when warm, and then the
        // idle time is saved up again.
        Engine::WarmUp(_) => {
            let warm_up = spec.span(Word::WarmUp).unwrap_or(Span::ZERO);
            length + warm_up + Span::from_nanos(warm_up.as_nanos().div_ceil(2))
        }
        Engine::Concurrent(_) | Engine::Adaptive(_) => spec.lease(),
        Engine::Unlimited => Span::ZERO,
    }
}
