//! How a controller did, beside somebody who knew the future.

use super::stories::three_hours;
use super::{Scenario, Steering, Told, run};

/// How long a controller may take to find a new level: five seconds, or so many latencies where
/// those take longer.
const GRACE_S: f64 = 5.0;
const GRACE_LATENCIES: f64 = 16.0;
/// How much more than exactly busy the clairvoyant tries.
const TRIED: [f64; 3] = [1.0, 1.4, 2.0];

/// How a controller did in one story; goodput in percent of the ideal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Score {
    pub(crate) whole_pct: f64,
    /// In the worst of the times it had to find a new level.
    pub(crate) finding_pct: f64,
    /// In the worst of the times after that.
    pub(crate) found_pct: f64,
    pub(crate) p99_ms: f64,
    /// The same of the clairvoyant.
    pub(crate) ideal_p99_ms: f64,
    pub(crate) highest: f64,
    pub(crate) dropped: f64,
}

/// How each of `all` did in a story: the median of as many times as there are seeds.
pub(crate) fn score<const N: usize>(
    scenario: &Scenario,
    all: &[Steering; N],
    seeds: impl Iterator<Item = u64>,
) -> [Score; N] {
    let mut scores: [Vec<Score>; N] = [const { Vec::new() }; N];
    for seed in seeds {
        let by = |times| run(scenario, Steering::Clairvoyant(times), seed);
        let ideal = TRIED.map(by).into_iter().max_by_key(Told::all_good);
        let ideal = ideal.expect("some are tried");
        for (steering, scores) in all.iter().zip(&mut scores) {
            scores.push(Score::of(scenario, &run(scenario, steering.clone(), seed), &ideal));
        }
    }
    scores.map(|scores| Score::median(&scores))
}

impl Score {
    fn of(scenario: &Scenario, told: &Told, ideal: &Told) -> Score {
        let share = |from: f64, until: f64| {
            let (had, best) = (told.good(from, until), ideal.good(from, until));
            // Where nothing can be had, nothing is missed.
            if best == 0 { 100.0 } else { 100.0 * had as f64 / best as f64 }
        };
        let found =
            |from: f64| from + GRACE_S.max(scenario.at(from).unloaded_ms() / 1e3 * GRACE_LATENCIES);
        let (mut finding_pct, mut found_pct) = (f64::MAX, f64::MAX);
        for (from, until) in scenario.spans() {
            finding_pct = finding_pct.min(share(from, found(from)));
            found_pct = found_pct.min(share(found(from), until));
        }
        Score {
            whole_pct: share(0.0, f64::MAX),
            finding_pct,
            found_pct,
            p99_ms: told.p99_ms(),
            ideal_p99_ms: ideal.p99_ms(),
            highest: told.highest as f64,
            dropped: told.dropped as f64,
        }
    }

    fn median(scores: &[Score]) -> Score {
        let of = |figure: fn(&Score) -> f64| {
            let mut all: Vec<f64> = scores.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Score {
            whole_pct: of(|score| score.whole_pct),
            finding_pct: of(|score| score.finding_pct),
            found_pct: of(|score| score.found_pct),
            p99_ms: of(|score| score.p99_ms),
            ideal_p99_ms: of(|score| score.ideal_p99_ms),
            highest: of(|score| score.highest),
            dropped: of(|score| score.dropped),
        }
    }
}

/// Three hours of overload on a service that is busy with two: the mean of the limit in each half
/// hour, and the highest it ever was.
pub(crate) fn hours(steering: Steering) -> (Vec<f64>, u64) {
    let told = run(&three_hours(), steering, 1);
    let mean = |limits: &[u64]| limits.iter().sum::<u64>() as f64 / limits.len() as f64;
    (told.limits.chunks(1800).map(mean).collect(), told.highest)
}
