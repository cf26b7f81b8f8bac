//! Every option reaches its engine: a text compiles to what one would have built by hand.

use tollgate_core::{
    Concurrency, FixedWindow, InvalidLimit, Meter, Refill, SlidingLog, SlidingSlots, SlidingWindow,
    Span, Time, WarmUp, Window,
};

use crate::limit::{AdaptiveRange, Engine, Limit, Steering};

fn by_hand() -> Result<Vec<(&'static str, Engine)>, InvalidLimit> {
    let (second, hour) = (Span::from_secs(1), Span::from_secs(3_600));
    let meter = |burst| Meter::new(10, second, burst);
    let epoch = || FixedWindow::new(10, Window::epoch(hour));
    let first_hit = || FixedWindow::new(10, Window::FirstHit { length: hour });
    let ticks = Refill::Interval { phase: Time::EPOCH };
    Ok(vec![
        ("10/s", Engine::Meter(meter(10)?)),
        ("10/s burst 20", Engine::Meter(meter(20)?)),
        ("10/s gcra burst 20", Engine::Meter(meter(20)?)),
        ("10/s leaky burst 20", Engine::Meter(meter(20)?.smooth_after(1))),
        ("10/s leaky free 5 burst 20", Engine::Meter(meter(20)?.smooth_after(5))),
        ("10/s interval", Engine::Meter(meter(10)?.refill(ticks))),
        ("10/s pay_later", Engine::Meter(meter(10)?.pay_later())),
        ("10/s initial 3", Engine::Meter(meter(10)?.initial(3)?)),
        ("10/month", Engine::Meter(Meter::new(10, Span::from_secs(30 * 86_400), 10)?)),
        ("10/year", Engine::Meter(Meter::new(10, Span::from_secs(365 * 86_400), 10)?)),
        ("10/h fixed", Engine::FixedWindow(epoch()?)),
        ("10/h fixed count_denied", Engine::FixedWindow(epoch()?.count_denied())),
        ("10/h first_hit", Engine::FixedWindow(first_hit()?)),
        ("10/h sliding", Engine::SlidingWindow(SlidingWindow::new(10, hour)?)),
        (
            "10/h sliding count_denied",
            Engine::SlidingWindow(SlidingWindow::new(10, hour)?.count_denied()),
        ),
        ("10/h slots 60", Engine::SlidingSlots(SlidingSlots::new(10, hour, 60)?)),
        ("10/h log", Engine::SlidingLog(SlidingLog::new(10, hour)?)),
        ("10/h log min_gap 1s", Engine::SlidingLog(SlidingLog::new(10, hour)?.min_gap(second)?)),
        ("10/h log count_denied", Engine::SlidingLog(SlidingLog::new(10, hour)?.count_denied())),
        ("10/s warmup 1h", Engine::WarmUp(WarmUp::new(10, second, hour)?)),
        ("10 concurrent", Engine::Concurrent(Concurrency::new(10, Span::from_secs(60))?)),
        ("10 concurrent lease 1s", Engine::Concurrent(Concurrency::new(10, second)?)),
        (
            "adaptive 2..10 concurrent lease 1s",
            Engine::Adaptive(AdaptiveRange { min: 2, max: 10, lease: second, by: Steering::Flow }),
        ),
        (
            "adaptive 2..10 concurrent aimd lease 1s",
            Engine::Adaptive(AdaptiveRange { min: 2, max: 10, lease: second, by: Steering::Aimd }),
        ),
        ("unlimited", Engine::Unlimited),
    ])
}

#[test]
fn texts_compile_to_what_one_would_build_by_hand() {
    for (text, engine) in by_hand().expect("every one is valid") {
        let limit: Limit = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{:?}", limit.engine()), format!("{engine:?}"), "{text}");
    }
}
