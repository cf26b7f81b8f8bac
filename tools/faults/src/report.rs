//! The report on a scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::StoreErrorKind;

use crate::load::CallRecord;
use crate::scenarios::{Scenario, ScenarioResult};

/// The promises of the store. No call takes much longer than the time-out, calls to a store that is
/// down fail at once, and a store that is back is used again soon.
const MAX_DURATION: Duration = Duration::from_millis(60);
const AT_ONCE: Duration = Duration::from_millis(1);
const MAX_DETECTION: Duration = Duration::from_millis(50);
const MAX_RECOVERY: Duration = Duration::from_secs(1);

pub(crate) fn head() {
    println!(
        "tollgate-faults {}: 16 callers, each 1 ms after its last answer; time-out 40 ms",
        env!("CARGO_PKG_VERSION")
    );
}

/// Returns the `of`th percentile of a sorted list.
fn percentile(sorted: &[Duration], of: usize) -> Duration {
    sorted
        .get((sorted.len() * of / 100).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

fn took(calls: impl Iterator<Item = CallRecord>) -> Vec<Duration> {
    let mut took: Vec<Duration> = calls.map(|call| call.took).collect();
    took.sort();
    took
}

/// Prints the report on a scenario, and returns whether all promises were kept.
pub(crate) fn print(scenario: &Scenario, result: &ScenarioResult) -> bool {
    let ScenarioResult { calls, charged, fault_at, repaired_at } = result;
    let calls = || calls.iter().copied();
    let before = took(calls().filter(|call| call.at + call.took < *fault_at));
    let during = took(calls().filter(|call| call.at + call.took >= *fault_at));
    let down = took(calls().filter(|call| call.error == Some(StoreErrorKind::Unavailable)));
    let first = |wanted: fn(&CallRecord) -> bool, from: Duration| {
        calls().find(|call| call.at >= from && wanted(call)).map(|call| call.at + call.took)
    };
    let failed = first(|call| call.error.is_some(), Duration::ZERO);
    let opened = first(|call| call.error == Some(StoreErrorKind::Unavailable), Duration::ZERO);
    let last_failure = calls().filter(|call| call.error.is_some()).map(|call| call.at).max();
    let recovered = last_failure.map(|at| at.saturating_sub(*repaired_at));
    println!("\n{}: {}", scenario.name, scenario.what);
    println!("  before       p50 {:?}, p99 {:?}", percentile(&before, 50), percentile(&before, 99));
    let longest = during.last().copied().unwrap_or_default();
    println!(
        "  from then on p50 {:?}, p99 {:?}, longest {longest:?}",
        percentile(&during, 50),
        percentile(&during, 99)
    );
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls() {
        *kinds.entry(call.error.map_or("answered", StoreErrorKind::as_str)).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    println!("  calls        {}", kinds.join(", "));
    let mut promises = Promises(true);
    if scenario.harmless {
        promises.check("not one call failed", failed.is_none());
    } else {
        let opened_in = opened.zip(failed.or(opened)).map(|(at, _)| at.saturating_sub(*fault_at));
        println!(
            "  marked down  after {opened_in:?}, then p50 {:?}, p99 {:?}",
            percentile(&down, 50),
            percentile(&down, 99)
        );
        println!("  used again   {recovered:?} after the repair");
        promises.check("no call takes longer than 60 ms", longest <= MAX_DURATION);
        promises
            .check("marked down within 50 ms", opened_in.is_none_or(|span| span <= MAX_DETECTION));
        promises.check("then calls fail within 1 ms (p99)", percentile(&down, 99) <= AT_ONCE);
        promises.check("used again within 1 s", recovered.is_none_or(|span| span <= MAX_RECOVERY));
    }
    let answered = calls().filter(|call| call.error.is_none()).count() as u64;
    let unknown = calls().filter(|call| {
        matches!(call.error, Some(StoreErrorKind::TimedOut | StoreErrorKind::Unreachable))
    });
    let unknown = unknown.count() as u64;
    if let Some(charged) = charged {
        println!(
            "  charged      {charged}; {answered} calls were answered, {unknown} may have been"
        );
        promises.check("charged once", (answered..=answered + unknown).contains(charged));
    }
    promises.0
}

/// Whether all promises were kept so far.
struct Promises(bool);

impl Promises {
    fn check(&mut self, promise: &str, kept: bool) {
        println!("  {}  {promise}", if kept { "kept  " } else { "BROKEN" });
        self.0 &= kept;
    }
}
