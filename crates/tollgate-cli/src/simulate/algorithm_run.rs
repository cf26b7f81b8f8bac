//! Runs of one trace under several algorithms at once, each with its own store.

use anyhow::{Context, bail};
use tollgate::Limit;
use tollgate::limit::AlgorithmName;

use super::args::Algorithm;
use super::panel::Panel;
use super::simulation::{EventVerdict, Simulation};
use super::tally::TraceTally;
use super::trace_event::TraceEvent;

/// A run of the trace under one algorithm, and its counts.
#[derive(Debug)]
pub(super) struct AlgorithmRun {
    /// The algorithm, in a comparison.
    pub(super) algorithm: Option<AlgorithmName>,
    /// The limits as text.
    pub(super) limits: String,
    simulation: Simulation,
    pub(super) tally: TraceTally,
}

impl AlgorithmRun {
    fn new(algorithm: Option<AlgorithmName>, limits: Vec<Limit>) -> AlgorithmRun {
        // The peak takes memory, and only a comparison shows it.
        let window_us = algorithm.and_then(|_| window_us(&limits));
        let text = text(&limits);
        AlgorithmRun {
            algorithm,
            limits: text,
            simulation: Simulation::new(limits),
            tally: TraceTally::new(window_us),
        }
    }

    /// Returns the label in charts.
    pub(super) fn label(&self) -> &str {
        self.algorithm.map_or(&self.limits, |name| name.as_str())
    }

    /// Returns the panel of a chart.
    pub(super) fn panel(&self) -> Panel<'_> {
        let title = match self.algorithm {
            Some(name) => format!("{name}: {}", self.limits),
            None => self.limits.clone(),
        };
        let (total, timeline) = (self.tally.total, &self.tally.timeline);
        Panel { label: self.label(), title, total, timeline }
    }

    /// Decides one event and counts it.
    pub(super) fn step(&mut self, event: &TraceEvent) -> anyhow::Result<EventVerdict> {
        let answer = self.simulation.step(event)?;
        self.tally.record(event, &answer);
        Ok(answer)
    }
}

/// Returns limits as text that `--limit` accepts.
pub(super) fn text(limits: &[Limit]) -> String {
    limits.iter().map(Limit::to_string).collect::<Vec<_>>().join("; ")
}

/// Returns the period of the first limit.
pub(super) fn window_us(limits: &[Limit]) -> Option<u64> {
    Some(limits.first()?.summary().period?.span().as_micros_ceil())
}

/// Returns one run for each algorithm; without any, one for the limits as they are.
pub(super) fn runs(
    limits: &[Limit],
    algorithms: &[Algorithm],
) -> anyhow::Result<Vec<AlgorithmRun>> {
    if algorithms.is_empty() {
        return Ok(vec![AlgorithmRun::new(None, limits.to_vec())]);
    }
    let mut names: Vec<AlgorithmName> = Vec::new();
    for name in algorithms.iter().flat_map(|algorithm| algorithm.names()) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    let run = |name: AlgorithmName| {
        let limits: anyhow::Result<_> = limits.iter().map(|limit| under(limit, name)).collect();
        Ok(AlgorithmRun::new(Some(name), limits?))
    };
    names.into_iter().map(run).collect()
}

/// Returns the amount and period of a limit under another algorithm; buckets keep the burst.
fn under(limit: &Limit, name: AlgorithmName) -> anyhow::Result<Limit> {
    let quota = limit.summary();
    let Some(period) = quota.period else {
        bail!("--compare needs limits with a period, such as 10/s; \"{limit}\" has none");
    };
    if quota.algorithm == name {
        return Ok(limit.clone());
    }
    use AlgorithmName::{Gcra, LeakyBucket, TokenBucket, WarmUp};
    let detail = match name {
        TokenBucket | LeakyBucket | Gcra => format!(" burst {}", quota.burst),
        WarmUp => format!(" {}{}", period.count, period.unit),
        _ => String::new(),
    };
    let text = format!("{}/{period} {name}{detail}", quota.amount);
    text.parse().with_context(|| format!("\"{limit}\" cannot be compared as {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_takes_amount_and_period_over() {
        let lanes_of = |text: &str| {
            let runs = runs(&[text.parse().unwrap()], &[Algorithm::All, Algorithm::Gcra]).unwrap();
            runs.into_iter().map(|run| run.limits).collect::<Vec<_>>()
        };
        assert_eq!(
            lanes_of("10 mails/s burst 20"),
            [
                "10 mails/s burst 20",
                "10/s leaky burst 20",
                "10/s gcra burst 20",
                "10/s fixed",
                "10/s sliding",
                "10/s log",
                "10/s warmup 1s"
            ]
        );
        assert_eq!(lanes_of("5/2day sliding slots 2")[4], "5/2d sliding slots 2");
        assert_eq!(lanes_of("5/2day sliding slots 2")[6], "5/2d warmup 2d");
    }

    #[test]
    fn a_limit_without_a_period_cannot_be_compared() {
        let error = runs(&["5 concurrent".parse().unwrap()], &[Algorithm::Gcra]).unwrap_err();
        assert!(error.to_string().contains("\"5 concurrent\" has none"));
    }
}
