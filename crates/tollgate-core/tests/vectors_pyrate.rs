//! Traces of pyrate-limiter's in-memory bucket: several sliding logs, all or none.
//!
//! The window of upstream is closed at its old end, ours is half-open: an item that is exactly one
//! interval old still counts there, in whole milliseconds, and not here. So upstream's waits are 1 ms
//! longer than ours, and nothing else differs.

mod vectors;

use tollgate_core::{Algorithm, Retry, SlidingLog, SlidingLogState, Span, Time};
use vectors::{Step, flag, int, load};

#[test]
fn every_trace_matches_upstream() {
    for vector in load("pyrate-limiter.json") {
        assert!(!vector.known_upstream_bug, "{}", vector.id);
        let mut bucket = Bucket::default();
        for rate in vector.config["rates"].as_array().unwrap() {
            let interval = Span::from_millis(int(rate, "interval_ms"));
            let log = SlidingLog::new(int(rate, "limit"), interval).unwrap();
            bucket.rates.push((log, interval, SlidingLogState::default()));
        }
        for (n, step) in vector.steps.iter().enumerate() {
            let what = format!("{} step {n}", vector.id);
            match step.op.as_str() {
                "put" => bucket.put(step, &what),
                "leak" => bucket.leak(step, &what),
                other => panic!("{what}: unknown call {other}"),
            }
        }
    }
}

#[derive(Default)]
struct Bucket {
    /// The logs, the shortest interval first, as upstream requires.
    rates: Vec<(SlidingLog, Span, SlidingLogState)>,
    /// The items that upstream holds; it removes old ones only in `leak`.
    count: u64,
}

impl Bucket {
    fn put(&mut self, step: &Step, what: &str) {
        let (now, weight) = (Time::from_nanos(step.at), int(&step.args, "weight"));
        let mut charged: Vec<_> = self.rates.iter().map(|rate| rate.2.clone()).collect();
        let mut failing = None;
        for ((log, interval, _), state) in self.rates.iter().zip(&mut charged) {
            let verdict = log.decide(state, now, weight);
            if !verdict.allowed {
                failing = failing.or(Some((log.capacity(), *interval, verdict.retry)));
            }
        }
        assert_eq!(failing.is_none(), flag(&step.expect, "allowed"), "{what}: allowed");
        if let Some((limit, interval, retry)) = failing {
            let theirs = &step.expect["failing_rate"];
            assert_eq!(limit, int(theirs, "limit"), "{what}: failing limit");
            assert_eq!(interval, Span::from_millis(int(theirs, "interval_ms")), "{what}: interval");
            let expected = match step.expect["waiting_ms"].as_i64() {
                Some(-1) => Retry::Never,
                _ => Retry::After(Span::from_millis(int(&step.expect, "waiting_ms") - 1)),
            };
            assert_eq!(retry, expected, "{what}: wait");
        } else {
            self.count += weight;
            self.rates.iter_mut().zip(charged).for_each(|(rate, state)| rate.2 = state);
        }
        assert_eq!(self.count, int(&step.expect, "count"), "{what}: count");
    }

    fn leak(&mut self, step: &Step, what: &str) {
        let (log, _, state) = self.rates.last().expect("a rate");
        let left = log.used(state, Time::from_nanos(step.at));
        assert_eq!(self.count - left, int(&step.expect, "removed"), "{what}: removed");
        assert_eq!(left, int(&step.expect, "count"), "{what}: count");
        self.count = left;
    }
}
