//! A story in figures.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::StoreErrorKind;

use crate::load::Seen;
use crate::scenarios::{Scenario, Story};

/// What is promised: no call takes much longer than the time-out, a resting store answers at once,
/// and a store that is well again is used again soon.
const LONGEST: Duration = Duration::from_millis(60);
const AT_ONCE: Duration = Duration::from_millis(1);
const OPENS: Duration = Duration::from_millis(50);
const RECOVERS: Duration = Duration::from_secs(1);

pub(crate) fn head() {
    println!(
        "tollgate-faults {}: 16 callers, each 1 ms after its last answer; time-out 40 ms",
        env!("CARGO_PKG_VERSION")
    );
}

/// The share `of` hundred of a sorted list.
fn percentile(sorted: &[Duration], of: usize) -> Duration {
    sorted
        .get((sorted.len() * of / 100).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

fn took(seen: impl Iterator<Item = Seen>) -> Vec<Duration> {
    let mut took: Vec<Duration> = seen.map(|seen| seen.took).collect();
    took.sort();
    took
}

/// Prints a story, and says whether what is promised was kept.
pub(crate) fn print(scenario: &Scenario, story: &Story) -> bool {
    let Story { seen, charged, hurt_at, healed_at } = story;
    let calls = || seen.iter().copied();
    let before = took(calls().filter(|seen| seen.at + seen.took < *hurt_at));
    let trouble = took(calls().filter(|seen| seen.at + seen.took >= *hurt_at));
    let resting = took(calls().filter(|seen| seen.error == Some(StoreErrorKind::Resting)));
    let first = |wanted: fn(&Seen) -> bool, from: Duration| {
        calls().find(|seen| seen.at >= from && wanted(seen)).map(|seen| seen.at + seen.took)
    };
    let failed = first(|seen| seen.error.is_some(), Duration::ZERO);
    let opened = first(|seen| seen.error == Some(StoreErrorKind::Resting), Duration::ZERO);
    let last_failure = calls().filter(|seen| seen.error.is_some()).map(|seen| seen.at).max();
    let recovered = last_failure.map(|at| at.saturating_sub(*healed_at));
    println!("\n{}: {}", scenario.name, scenario.what);
    println!("  before       p50 {:?}, p99 {:?}", percentile(&before, 50), percentile(&before, 99));
    let longest = trouble.last().copied().unwrap_or_default();
    println!(
        "  from then on p50 {:?}, p99 {:?}, longest {longest:?}",
        percentile(&trouble, 50),
        percentile(&trouble, 99)
    );
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for seen in seen {
        *kinds.entry(seen.error.map_or("answered", StoreErrorKind::as_str)).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    println!("  calls        {}", kinds.join(", "));
    let mut kept = Kept(true);
    if scenario.harmless {
        kept.is("not one call failed", failed.is_none());
    } else {
        let opened_in = opened.zip(failed.or(opened)).map(|(at, _)| at.saturating_sub(*hurt_at));
        println!(
            "  left alone   after {opened_in:?}, then p50 {:?}, p99 {:?}",
            percentile(&resting, 50),
            percentile(&resting, 99)
        );
        println!("  used again   {recovered:?} after it was well");
        kept.is("no call takes longer than 60 ms", longest <= LONGEST);
        kept.is("left alone within 50 ms", opened_in.is_none_or(|span| span <= OPENS));
        kept.is("then an answer within 1 ms (p99)", percentile(&resting, 99) <= AT_ONCE);
        kept.is("used again within 1 s", recovered.is_none_or(|span| span <= RECOVERS));
    }
    let answered = calls().filter(|seen| seen.error.is_none()).count() as u64;
    let unknown = calls().filter(|seen| {
        matches!(seen.error, Some(StoreErrorKind::TimedOut | StoreErrorKind::Unreachable))
    });
    let unknown = unknown.count() as u64;
    if let Some(charged) = charged {
        println!(
            "  charged      {charged}; {answered} calls were answered, of {unknown} nobody knows"
        );
        kept.is("charged once", (answered..=answered + unknown).contains(charged));
    }
    kept.0
}

/// Whether all promises were kept so far.
struct Kept(bool);

impl Kept {
    fn is(&mut self, promise: &str, kept: bool) {
        println!("  {}  {promise}", if kept { "kept  " } else { "BROKEN" });
        self.0 &= kept;
    }
}
