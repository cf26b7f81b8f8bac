//! Exactness: threads that compete for one key, with and without refill.

use std::sync::Barrier;

use tollgate::testing::ManualClock;
use tollgate::{Clock, Limit, Limiter, Span, Time};

use super::super::check::{CheckContext, CheckRun};
use super::super::measurement::{FigureBound, FigureUnit, Measurement};
use crate::text::grouped;

/// The number that each limit of [`KINDS`] holds.
const CAPACITY: u64 = 500;
/// Limits of every algorithm, whose periods do not end while the clock stands still.
const KINDS: &[&str] = &[
    "500/year",
    "7/year burst 500",
    "500/year leaky",
    "500/year interval",
    "500/year fixed",
    "500/year fixed first_hit",
    "500/year calendar",
    "500/year sliding",
    "500/year sliding slots 5",
    "500/year log",
    "500 concurrent lease 1year",
];

/// The burst of the limit whose intervals are measured.
const BURST: u64 = 50;
/// The rate of that limit, in requests per second.
const RATE: u64 = 1_000;
/// How far the counters of two cores may differ.
const CLOCK_SKEW: Span = Span::from_nanos(1_000);

pub(super) fn run(context: &CheckContext) -> anyhow::Result<CheckRun> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).clamp(4, 16);
    let rounds = context.amount(20, 3);
    let mut worst = [CAPACITY; 2];
    for round in 0..rounds {
        for kind in KINDS {
            context.step(format!("{kind}, round {} of {rounds}", round + 1));
            let limit: Limit = kind.parse()?;
            let builder = || Limiter::builder().limit(limit.clone()).clock(&ManualClock::new());
            let (keyed, direct) = (builder().build_keyed(), builder().build());
            let admitted = [
                admitted(threads, || keyed.check("hot").is_ok()),
                admitted(threads, || direct.check().is_ok()),
            ];
            for (worst, admitted) in worst.iter_mut().zip(admitted) {
                *worst = worse(*worst, admitted);
            }
        }
    }
    let calls = 2 * CAPACITY * rounds * KINDS.len() as u64;
    let what = format!("{} limits × {threads} threads, {} calls", KINDS.len(), grouped(calls));
    let mut measured = vec![
        hot_key(format!("one hot key without refill, {what}"), worst[0]),
        hot_key(format!("one limiter without keys, {what}"), worst[1]),
    ];
    context.step("intervals");
    measured.extend(intervals(context, threads)?);
    Ok(CheckRun::Measured(measured))
}

fn hot_key(subject: String, admitted: u64) -> Measurement {
    Measurement::exactly(subject, admitted, "admitted", CAPACITY)
}

/// Returns the number that is further from the capacity.
fn worse(one: u64, other: u64) -> u64 {
    if other.abs_diff(CAPACITY) > one.abs_diff(CAPACITY) { other } else { one }
}

/// Calls from all threads at the same time, twice as often as the limit allows; returns how many pass.
fn admitted(threads: usize, call: impl Fn() -> bool + Sync) -> u64 {
    let barrier = Barrier::new(threads);
    let calls = (2 * CAPACITY as usize).div_ceil(threads);
    std::thread::scope(|scope| {
        let start = || {
            scope.spawn(|| {
                barrier.wait();
                (0..calls).filter(|_| call()).count() as u64
            })
        };
        let threads: Vec<_> = (0..threads).map(|_| start()).collect();
        // A thread that panicked admitted nothing, which is not the capacity.
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    })
}

/// The bounds of the time at which a request was admitted.
#[derive(Clone, Copy, Debug)]
struct AdmissionTime {
    before: Time,
    after: Time,
}

/// Hammers a limit with refill on the system clock, and looks at every interval.
fn intervals(context: &CheckContext, threads: usize) -> anyhow::Result<Vec<Measurement>> {
    let limit: Limit = format!("{RATE}/s burst {BURST}").parse()?;
    let clock = Clock::system();
    let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build_keyed();
    let until = clock.now() + Span::from_millis(context.amount(2_000, 300));
    let times = admissions(&clock, threads, until, || limiter.check("hot").is_ok());
    Ok(interval_measurements(threads, &times))
}

fn interval_measurements(threads: usize, times: &[AdmissionTime]) -> Vec<Measurement> {
    let subject = format!("{RATE}/s burst {BURST} with refill, {threads} threads");
    let (all, unit) = (times.len() as u64, FigureUnit::Count("requests"));
    vec![
        Measurement::exactly(
            format!("{subject}: over in any interval"),
            largest_excess(times),
            "requests",
            0,
        ),
        // Without admissions there are no intervals.
        Measurement::new(format!("{subject}: admitted"), all, unit, FigureBound::AtLeast(BURST)),
    ]
}

fn admissions(
    clock: &Clock,
    threads: usize,
    until: Time,
    call: impl Fn() -> bool + Sync,
) -> Vec<AdmissionTime> {
    let hammer = || {
        let (mut times, mut before) = (Vec::new(), clock.now());
        while before < until {
            let is_admitted = call();
            let after = clock.now();
            if is_admitted {
                times.push(AdmissionTime { before, after });
            }
            before = after;
        }
        times
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(hammer)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// Returns by how many requests the admissions of any interval exceed the burst and the rate.
fn largest_excess(times: &[AdmissionTime]) -> u64 {
    let mut by_end = times.to_vec();
    by_end.sort_by_key(|time| time.after);
    let mut excess = 0;
    for start in times.iter().map(|time| time.before) {
        let inside = by_end.iter().filter(|time| time.before >= start);
        for (count, time) in (1_u64..).zip(inside) {
            let length = time.after.since(start) + CLOCK_SKEW;
            let refilled = u128::from(RATE) * u128::from(length.as_nanos()) / 1_000_000_000;
            let allowed = BURST.saturating_add(u64::try_from(refilled).unwrap_or(u64::MAX));
            excess = excess.max(count.saturating_sub(allowed));
        }
    }
    excess
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_limiter_that_is_off_by_one_is_found() {
        for (capacity, holds) in [(CAPACITY, true), (CAPACITY + 1, false), (CAPACITY - 1, false)] {
            let counted = AtomicU64::new(0);
            let admitted = admitted(4, || counted.fetch_add(1, Ordering::Relaxed) < capacity);
            assert_eq!(hot_key("mutant".into(), admitted).holds(), holds, "{capacity}");
        }
        // One wrong round among many is what counts.
        assert_eq!(worse(worse(CAPACITY, CAPACITY + 1), CAPACITY), CAPACITY + 1);
    }

    /// Two threads that both check before either counts share the last unit.
    #[test]
    fn a_limiter_that_checks_before_it_counts_is_found() {
        let (counted, together) = (AtomicU64::new(1), Barrier::new(2));
        let admitted = admitted(2, || {
            let is_below = counted.load(Ordering::SeqCst) < CAPACITY;
            together.wait();
            counted.fetch_add(u64::from(is_below), Ordering::SeqCst);
            together.wait();
            is_below
        });
        assert!(!hot_key("mutant".into(), 1 + admitted).holds());
    }

    #[test]
    fn one_request_too_many_in_an_interval_is_found() {
        let at =
            |ns: u64| AdmissionTime { before: Time::from_nanos(ns), after: Time::from_nanos(ns) };
        let start = 1_000_000_000;
        // The burst at once, then one request each millisecond.
        let mut times: Vec<_> = (0..BURST).map(|_| at(start)).collect();
        times.extend((1..100).map(|ms| at(start + ms * 1_000_000)));
        assert_eq!(largest_excess(&times), 0);
        times.push(at(start + 50_500_000));
        assert_eq!(largest_excess(&times), 1);
        let measured = Measurement::exactly("x", largest_excess(&times), "requests", 0);
        assert!(!measured.holds());
    }

    #[test]
    fn a_limiter_with_twice_the_burst_is_found() {
        let holds = |burst: u64| {
            let (manual, limit) = (ManualClock::new(), format!("{RATE}/s burst {burst}"));
            let clock = Clock::from(&manual);
            let limit: Limit = limit.parse().unwrap();
            let limiter = Limiter::builder().limit(limit).clock(&manual).build();
            let until = clock.now() + Span::from_millis(20);
            let times = admissions(&clock, 2, until, || {
                manual.advance(Duration::from_micros(2));
                limiter.check().is_ok()
            });
            interval_measurements(2, &times).iter().all(Measurement::holds)
        };
        assert!(holds(BURST));
        assert!(!holds(2 * BURST));
        assert!(!interval_measurements(2, &[])[1].holds(), "nothing was admitted");
    }
}
