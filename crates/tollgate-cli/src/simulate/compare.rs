//! Lanes: one trace under several algorithms at once, each with a store of its own.

use anyhow::{Context, bail};
use tollgate::Limit;
use tollgate::limit::AlgorithmName;

use super::args::Algorithm;
use super::event::Event;
use super::panel::Panel;
use super::run::{Answer, Simulation};
use super::tally::Tally;

/// One way to decide the trace, and what became of it.
#[derive(Debug)]
pub(super) struct Lane {
    /// Its name in a comparison.
    pub(super) algorithm: Option<AlgorithmName>,
    /// The limits, as text.
    pub(super) limits: String,
    simulation: Simulation,
    pub(super) tally: Tally,
}

impl Lane {
    fn new(algorithm: Option<AlgorithmName>, limits: Vec<Limit>) -> Lane {
        // The peak costs memory, and only a comparison shows it.
        let window_us = algorithm.and_then(|_| window_us(&limits));
        let text = text(&limits);
        Lane {
            algorithm,
            limits: text,
            simulation: Simulation::new(limits),
            tally: Tally::new(window_us),
        }
    }

    /// What charts call it.
    pub(super) fn label(&self) -> &str {
        self.algorithm.map_or(&self.limits, |name| name.as_str())
    }

    /// What is drawn of it.
    pub(super) fn panel(&self) -> Panel<'_> {
        let title = match self.algorithm {
            Some(name) => format!("{name}: {}", self.limits),
            None => self.limits.clone(),
        };
        let (total, timeline) = (self.tally.total, &self.tally.timeline);
        Panel { label: self.label(), title, total, timeline }
    }

    /// Decides one event, and counts it.
    pub(super) fn step(&mut self, event: &Event) -> anyhow::Result<Answer> {
        let answer = self.simulation.step(event)?;
        self.tally.record(event, &answer);
        Ok(answer)
    }
}

/// Limits as text, the way they may be given again.
pub(super) fn text(limits: &[Limit]) -> String {
    limits.iter().map(Limit::to_string).collect::<Vec<_>>().join("; ")
}

/// The period of the first limit.
pub(super) fn window_us(limits: &[Limit]) -> Option<u64> {
    Some(limits.first()?.quota().period?.span().as_micros_ceil())
}

/// One lane for each algorithm; without any, one for the limits as they are.
pub(super) fn lanes(limits: &[Limit], algorithms: &[Algorithm]) -> anyhow::Result<Vec<Lane>> {
    if algorithms.is_empty() {
        return Ok(vec![Lane::new(None, limits.to_vec())]);
    }
    let mut names: Vec<AlgorithmName> = Vec::new();
    for name in algorithms.iter().flat_map(|algorithm| algorithm.names()) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    let lane = |name: AlgorithmName| {
        let limits: anyhow::Result<_> = limits.iter().map(|limit| under(limit, name)).collect();
        Ok(Lane::new(Some(name), limits?))
    };
    names.into_iter().map(lane).collect()
}

/// The limit's amount and period under another algorithm; buckets keep its burst.
fn under(limit: &Limit, name: AlgorithmName) -> anyhow::Result<Limit> {
    let quota = limit.quota();
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
            let lanes =
                lanes(&[text.parse().unwrap()], &[Algorithm::All, Algorithm::Gcra]).unwrap();
            lanes.into_iter().map(|lane| lane.limits).collect::<Vec<_>>()
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
    fn what_has_no_period_cannot_be_compared() {
        let error = lanes(&["5 concurrent".parse().unwrap()], &[Algorithm::Gcra]).unwrap_err();
        assert!(error.to_string().contains("\"5 concurrent\" has none"));
    }
}
