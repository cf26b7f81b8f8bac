//! Measured figures, by subject and scenario.

use crate::measure::{Sample, Trial, median, spread};

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Text,
    Number,
    None,
}

/// The distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyDistribution {
    Hot,
    Uniform,
    Zipf,
}

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) keys: KeyKind,
    pub(crate) traffic: KeyDistribution,
    /// Whether nine in ten decisions are denied (all for a hot key); otherwise all are allowed.
    pub(crate) denied: bool,
    pub(crate) threads: usize,
}

/// A subject in a scenario, with a sample for each round.
pub(crate) struct Cell {
    pub(crate) subject: &'static str,
    pub(crate) case: Case,
    pub(crate) trial: Box<dyn Trial>,
    pub(crate) samples: Vec<Sample>,
}

/// The samples of a cell, without its limiter.
pub(crate) struct Figure {
    pub(crate) subject: &'static str,
    pub(crate) case: Case,
    pub(crate) samples: Vec<Sample>,
}

impl Figure {
    /// Returns the median of thread CPU nanoseconds per decision.
    pub(crate) fn cpu_ns(&self) -> f64 {
        median(self.samples.iter().map(|sample| sample.cpu_ns))
    }

    /// Returns the median share of allowed decisions.
    pub(crate) fn allowed(&self) -> f64 {
        median(self.samples.iter().map(|sample| sample.allowed))
    }

    /// Returns the extra cost over another figure: the median of the differences of each round, in ns.
    pub(crate) fn above(&self, other: &Figure) -> f64 {
        let pairs = self.samples.iter().zip(&other.samples);
        median(pairs.map(|(ours, theirs)| ours.cpu_ns - theirs.cpu_ns))
    }

    /// Returns the ratio to another figure: the median of the ratios of each round, and their spread.
    pub(crate) fn over(&self, other: &Figure) -> Ratio {
        let pairs = self.samples.iter().zip(&other.samples);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours.cpu_ns / theirs.cpu_ns).collect();
        Ratio { value: median(ratios.iter().copied()), noise: spread(&ratios) }
    }
}

/// A ratio and its uncertainty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) noise: f64,
}

/// All figures of a run.
#[derive(Default)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    /// Adds the samples of `cells` and drops their limiters.
    pub(crate) fn add(&mut self, cells: Vec<Cell>) {
        self.0.extend(cells.into_iter().map(|cell| Figure {
            subject: cell.subject,
            case: cell.case,
            samples: cell.samples,
        }));
    }

    pub(crate) fn find(&self, subject: &str, case: Case) -> Option<&Figure> {
        self.0.iter().find(|figure| figure.subject == subject && figure.case == case)
    }

    /// Returns the subjects with a figure for this type of key, in insertion order.
    pub(crate) fn subjects(&self, keys: KeyKind) -> Vec<&'static str> {
        let mut names = Vec::new();
        for figure in self.0.iter().filter(|figure| figure.case.keys == keys) {
            if !names.contains(&figure.subject) {
                names.push(figure.subject);
            }
        }
        names
    }

    /// Returns the ratio of two subjects in one scenario.
    pub(crate) fn ratio(&self, subject: &str, base: &str, case: Case) -> Option<Ratio> {
        Some(self.find(subject, case)?.over(self.find(base, case)?))
    }
}
