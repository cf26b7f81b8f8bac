//! The method: thread CPU time per decision, in rounds that all subjects share.

use std::hint::{self, black_box};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cpu_time::ThreadTime;

use crate::subjects::{BATCH, Batch, Subject};
use crate::workload::Sequences;

/// The result of one run of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Thread CPU nanoseconds per decision, over all threads.
    pub(crate) cpu_ns: f64,
    /// The share of decisions that were allowed, 0 to 1.
    pub(crate) allowed: f64,
}

/// A subject with its traffic, ready to run.
///
/// Dynamic dispatch ends here: the loop over decisions behind `run` is compiled for its subject.
pub(crate) trait Trial {
    fn run(&self, threads: usize) -> Sample;
}

/// Decides about `keys` with `subject` and counts the allowed ones.
pub(crate) type DecisionLoop<S, K> = fn(&S, &[K]) -> u64;

/// The only implementation of [`Trial`].
pub(crate) struct SubjectTrial<S, K> {
    pub(crate) subject: Arc<S>,
    pub(crate) sequences: Sequences<K>,
    pub(crate) decide_all: DecisionLoop<S, K>,
    /// Slow subjects use only one part in `thin` of the sequence.
    pub(crate) thin: usize,
}

impl<S: Send + Sync, K: Send + Sync> Trial for SubjectTrial<S, K> {
    fn run(&self, threads: usize) -> Sample {
        let ready = AtomicUsize::new(0);
        let totals = thread::scope(|scope| {
            let runs: Vec<_> = self.sequences[..threads]
                .iter()
                .map(|keys| {
                    let keys = &keys[..(keys.len() / self.thin).max(1)];
                    let ready = &ready;
                    scope.spawn(move || {
                        // Threads spin, so that all start at once: a wake-up takes longer than a decision.
                        ready.fetch_add(1, Ordering::AcqRel);
                        while ready.load(Ordering::Acquire) < threads {
                            hint::spin_loop();
                        }
                        let start = ThreadTime::now();
                        let allowed = (self.decide_all)(&self.subject, keys);
                        (start.elapsed(), allowed, keys.len())
                    })
                })
                .collect();
            runs.into_iter()
                .map(|run| run.join().expect("a run panicked"))
                .fold((Duration::ZERO, 0, 0), |sum, run| {
                    (sum.0 + run.0, sum.1 + run.1, sum.2 + run.2)
                })
        });
        let (cpu, allowed, decisions) = totals;
        Sample {
            cpu_ns: cpu.as_nanos() as f64 / decisions as f64,
            allowed: allowed as f64 / decisions as f64,
        }
    }
}

/// Makes one decision per call.
#[inline(never)]
pub(crate) fn one_by_one<S: Subject<K>, K>(subject: &S, keys: &[K]) -> u64 {
    let mut allowed = 0;
    for key in keys {
        allowed += u64::from(subject.allow(black_box(key)));
    }
    allowed
}

/// Makes [`BATCH`] decisions per call.
#[inline(never)]
pub(crate) fn in_batches<S: Batch<K>, K>(subject: &S, keys: &[K]) -> u64 {
    let (batches, rest) = keys.as_chunks::<BATCH>();
    let allowed: u64 = batches.iter().map(|keys| subject.allow_batch(black_box(keys))).sum();
    allowed + one_by_one(subject, rest)
}

/// Runs every cell once per round, so that a noisy minute affects all of them equally.
///
/// The order is reversed each round, so that a cell does not always follow the same neighbour.
pub(crate) fn interleave<'a, T: 'a>(
    what: &str,
    rounds: usize,
    cells: &'a mut [T],
    mut run: impl FnMut(&mut T),
) {
    let chatty = std::io::stderr().is_terminal();
    for round in 0..rounds {
        let count = cells.len();
        for turn in 0..count {
            if chatty {
                eprint!("\r\x1b[K{what}: round {} of {rounds}, {turn} of {count}", round + 1);
            }
            run(&mut cells[if round % 2 == 0 { turn } else { count - 1 - turn }]);
        }
    }
    if chatty {
        eprint!("\r\x1b[K");
    }
}

/// Like [`interleave`], but stops at the first error.
pub(crate) fn try_interleave<'a, T: 'a>(
    what: &str,
    rounds: usize,
    cells: &'a mut [T],
    mut run: impl FnMut(&mut T) -> Result<(), String>,
) -> Result<(), String> {
    let mut outcome = Ok(());
    interleave(what, rounds, cells, |cell| {
        if outcome.is_ok() {
            outcome = run(cell);
        }
    });
    outcome
}

/// Returns the middle value; of an even number, the mean of the middle two.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// Returns the mean distance of the quartiles from the median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let quartile = |q| quantile(values.iter().copied(), q);
    (quartile(0.75) - quartile(0.25)) / 2.0
}

fn quantile(values: impl IntoIterator<Item = f64>, q: f64) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = q * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}
