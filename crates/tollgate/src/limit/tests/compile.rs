//! Checks that every option reaches its algorithm, against algorithms built by hand.

use tollgate_core::{
    Concurrency, FixedWindow, InvalidLimit, Meter, Refill, SlidingLog, SlidingSlots, SlidingWindow,
    Span, Time, WarmUp, Window,
};

use crate::limit::{AdaptiveRange, ControllerKind, Limit, LimitAlgorithm};

fn by_hand() -> Result<Vec<(&'static str, LimitAlgorithm)>, InvalidLimit> {
    let (second, hour) = (Span::from_secs(1), Span::from_secs(3_600));
    let meter = |burst| Meter::new(10, second, burst);
    let epoch = || FixedWindow::new(10, Window::epoch(hour));
    let first_hit = || FixedWindow::new(10, Window::FirstHit { length: hour });
    let ticks = Refill::Interval { phase: Time::EPOCH };
    Ok(vec![
        ("10/s", LimitAlgorithm::Meter(meter(10)?)),
        ("10/s burst 20", LimitAlgorithm::Meter(meter(20)?)),
        ("10/s gcra burst 20", LimitAlgorithm::Meter(meter(20)?)),
        ("10/s leaky burst 20", LimitAlgorithm::Meter(meter(20)?.smooth_after(1))),
        ("10/s leaky free 5 burst 20", LimitAlgorithm::Meter(meter(20)?.smooth_after(5))),
        ("10/s interval", LimitAlgorithm::Meter(meter(10)?.refill(ticks))),
        ("10/s pay_later", LimitAlgorithm::Meter(meter(10)?.pay_later())),
        ("10/s initial 3", LimitAlgorithm::Meter(meter(10)?.initial(3)?)),
        ("10/month", LimitAlgorithm::Meter(Meter::new(10, Span::from_secs(30 * 86_400), 10)?)),
        ("10/year", LimitAlgorithm::Meter(Meter::new(10, Span::from_secs(365 * 86_400), 10)?)),
        ("10/h fixed", LimitAlgorithm::FixedWindow(epoch()?)),
        ("10/h fixed count_denied", LimitAlgorithm::FixedWindow(epoch()?.count_denied())),
        ("10/h first_hit", LimitAlgorithm::FixedWindow(first_hit()?)),
        ("10/h sliding", LimitAlgorithm::SlidingWindow(SlidingWindow::new(10, hour)?)),
        (
            "10/h sliding count_denied",
            LimitAlgorithm::SlidingWindow(SlidingWindow::new(10, hour)?.count_denied()),
        ),
        ("10/h slots 60", LimitAlgorithm::SlidingSlots(SlidingSlots::new(10, hour, 60)?)),
        ("10/h log", LimitAlgorithm::SlidingLog(SlidingLog::new(10, hour)?)),
        (
            "10/h log min_gap 1s",
            LimitAlgorithm::SlidingLog(SlidingLog::new(10, hour)?.min_gap(second)?),
        ),
        (
            "10/h log count_denied",
            LimitAlgorithm::SlidingLog(SlidingLog::new(10, hour)?.count_denied()),
        ),
        ("10/s warmup 1h", LimitAlgorithm::WarmUp(WarmUp::new(10, second, hour)?)),
        ("10 concurrent", LimitAlgorithm::Concurrent(Concurrency::new(10, Span::from_secs(60))?)),
        ("10 concurrent lease 1s", LimitAlgorithm::Concurrent(Concurrency::new(10, second)?)),
        (
            "adaptive 2..10 concurrent lease 1s",
            LimitAlgorithm::Adaptive(AdaptiveRange {
                min: 2,
                max: 10,
                lease: second,
                controller: ControllerKind::Flow,
            }),
        ),
        (
            "adaptive 2..10 concurrent aimd lease 1s",
            LimitAlgorithm::Adaptive(AdaptiveRange {
                min: 2,
                max: 10,
                lease: second,
                controller: ControllerKind::Aimd,
            }),
        ),
        ("unlimited", LimitAlgorithm::Unlimited),
    ])
}

#[test]
fn texts_compile_to_the_algorithm_built_by_hand() {
    for (text, algorithm) in by_hand().expect("every one is valid") {
        let limit: Limit = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{:?}", limit.algorithm()), format!("{algorithm:?}"), "{text}");
    }
}
