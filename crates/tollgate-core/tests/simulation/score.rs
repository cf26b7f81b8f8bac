//! The score of a policy, compared with an oracle.

use super::tuned_scenarios::three_hours;
use super::{LimitPolicy, Outcome, Scenario, run};

/// The time a controller has to settle after a change: five seconds, or 16 latencies if longer.
const SETTLE_S: f64 = 5.0;
const SETTLE_LATENCIES: f64 = 16.0;
/// The constants among which the oracle chooses.
const ORACLE_FACTORS: [f64; 3] = [1.0, 1.4, 2.0];

/// The score of a policy in one scenario; goodput in percent of the ideal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Score {
    pub(crate) whole_pct: f64,
    /// The goodput while settling, after the worst change.
    pub(crate) settling_pct: f64,
    /// The goodput once settled, after the worst change.
    pub(crate) settled_pct: f64,
    pub(crate) p99_ms: f64,
    /// The 99th percentile of latency under the oracle.
    pub(crate) ideal_p99_ms: f64,
    pub(crate) highest: f64,
    pub(crate) dropped: f64,
}

/// Returns the median score of each policy in a scenario, over all seeds.
pub(crate) fn score<const N: usize>(
    scenario: &Scenario,
    all: &[LimitPolicy; N],
    seeds: impl Iterator<Item = u64>,
) -> [Score; N] {
    let mut scores: [Vec<Score>; N] = [const { Vec::new() }; N];
    for seed in seeds {
        let by = |times| run(scenario, LimitPolicy::Oracle(times), seed);
        let ideal = ORACLE_FACTORS.map(by).into_iter().max_by_key(Outcome::all_good);
        let ideal = ideal.expect("the oracle has constants to choose from");
        for (policy, scores) in all.iter().zip(&mut scores) {
            scores.push(Score::new(scenario, &run(scenario, policy.clone(), seed), &ideal));
        }
    }
    scores.map(|scores| Score::median(&scores))
}

impl Score {
    fn new(scenario: &Scenario, outcome: &Outcome, ideal: &Outcome) -> Score {
        let share = |from: f64, until: f64| {
            let (had, best) = (outcome.good(from, until), ideal.good(from, until));
            // Where the oracle has nothing, nothing is missed.
            if best == 0 { 100.0 } else { 100.0 * had as f64 / best as f64 }
        };
        let settled = |from: f64| {
            from + SETTLE_S.max(scenario.at(from).unloaded_ms() / 1e3 * SETTLE_LATENCIES)
        };
        let (mut settling_pct, mut settled_pct) = (f64::MAX, f64::MAX);
        for (from, until) in scenario.spans() {
            settling_pct = settling_pct.min(share(from, settled(from)));
            settled_pct = settled_pct.min(share(settled(from), until));
        }
        Score {
            whole_pct: share(0.0, f64::MAX),
            settling_pct,
            settled_pct,
            p99_ms: outcome.p99_ms(),
            ideal_p99_ms: ideal.p99_ms(),
            highest: outcome.highest as f64,
            dropped: outcome.dropped as f64,
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
            settling_pct: of(|score| score.settling_pct),
            settled_pct: of(|score| score.settled_pct),
            p99_ms: of(|score| score.p99_ms),
            ideal_p99_ms: of(|score| score.ideal_p99_ms),
            highest: of(|score| score.highest),
            dropped: of(|score| score.dropped),
        }
    }
}

/// Simulates three hours of overload on a service that two requests keep busy.
///
/// Returns the mean limit of each half hour, and the highest limit.
pub(crate) fn three_hours_of_overload(policy: LimitPolicy) -> (Vec<f64>, u64) {
    let outcome = run(&three_hours(), policy, 1);
    let mean = |limits: &[u64]| limits.iter().sum::<u64>() as f64 / limits.len() as f64;
    (outcome.limits.chunks(1800).map(mean).collect(), outcome.highest)
}
