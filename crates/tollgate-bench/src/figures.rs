//! Measured figures, found again by what was measured.

use crate::measure::{Lane, Sample, median, spread};

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Text,
    Number,
    None,
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    Hot,
    Uniform,
    Zipf,
}

/// One scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) keys: Keys,
    pub(crate) traffic: Traffic,
    /// Nine in ten decisions are denied, of a hot key all; otherwise all are allowed.
    pub(crate) denied: bool,
    pub(crate) threads: usize,
}

/// A subject in a scenario, and a sample of it for each round.
pub(crate) struct Cell {
    pub(crate) subject: &'static str,
    pub(crate) case: Case,
    pub(crate) lane: Box<dyn Lane>,
    pub(crate) samples: Vec<Sample>,
}

/// A cell after its rounds, without the limiter.
pub(crate) struct Figure {
    pub(crate) subject: &'static str,
    pub(crate) case: Case,
    pub(crate) samples: Vec<Sample>,
}

impl Figure {
    /// Median thread CPU nanoseconds per decision.
    pub(crate) fn cpu_ns(&self) -> f64 {
        median(self.samples.iter().map(|sample| sample.cpu_ns))
    }

    /// Median share of allowed decisions.
    pub(crate) fn allowed(&self) -> f64 {
        median(self.samples.iter().map(|sample| sample.allowed))
    }

    /// What this costs more than another: the median of the differences of each round, in ns.
    pub(crate) fn above(&self, other: &Figure) -> f64 {
        let pairs = self.samples.iter().zip(&other.samples);
        median(pairs.map(|(ours, theirs)| ours.cpu_ns - theirs.cpu_ns))
    }

    /// This figure over another: the median of the ratios of each round, and their spread.
    pub(crate) fn over(&self, other: &Figure) -> Ratio {
        let pairs = self.samples.iter().zip(&other.samples);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours.cpu_ns / theirs.cpu_ns).collect();
        Ratio { value: median(ratios.iter().copied()), noise: spread(&ratios) }
    }
}

/// A ratio and how far it is to be trusted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) noise: f64,
}

/// All figures of a run.
#[derive(Default)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    /// Keeps the samples of `cells` and drops their limiters.
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

    /// Subjects with a figure for keys of this kind, in the order in which they were added.
    pub(crate) fn subjects(&self, keys: Keys) -> Vec<&'static str> {
        let mut names = Vec::new();
        for figure in self.0.iter().filter(|figure| figure.case.keys == keys) {
            if !names.contains(&figure.subject) {
                names.push(figure.subject);
            }
        }
        names
    }

    /// The ratio of two subjects in one scenario.
    pub(crate) fn ratio(&self, subject: &str, base: &str, case: Case) -> Option<Ratio> {
        Some(self.find(subject, case)?.over(self.find(base, case)?))
    }
}
