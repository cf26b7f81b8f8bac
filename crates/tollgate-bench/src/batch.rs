//! Many decisions in one call, against the same decisions one by one.

use std::sync::Arc;

use crate::figures::{Case, Cell, Figures, Keys, Ratio, Traffic};
use crate::measure::{Track, in_batches, interleave, one_by_one};
use crate::options::Options;
use crate::report::{Table, count};
use crate::subjects::{BATCH, Subject, tollgate::Keyed};
use crate::workload::{self, Allowance, Key};

const CASE: Case = Case { keys: Keys::Text, traffic: Traffic::Uniform, denied: false, threads: 1 };

/// Measures, prints, and returns the ratio of the two ways.
pub(crate) fn run(options: &Options) -> Option<Ratio> {
    let Options { keys, decisions, rounds, .. } = *options;
    let limiter = Arc::new(Keyed::new(Allowance::wide(rounds * decisions * 2)));
    let sequences = workload::uniform::<String>(keys, decisions);
    for index in 0..keys {
        limiter.allow(&String::of(index));
    }
    let mut cells =
        [("one by one", one_by_one as _), ("one call", in_batches as _)].map(|(subject, ask)| {
            Cell {
                subject,
                case: CASE,
                lane: Box::new(Track {
                    subject: limiter.clone(),
                    sequences: sequences.clone(),
                    ask,
                    thin: 1,
                }),
                samples: Vec::new(),
            }
        });
    interleave("batch", rounds, &mut cells, |cell| cell.samples.push(cell.lane.run(1)));
    let mut figures = Figures::default();
    figures.add(cells.into());

    println!("\n{BATCH} decisions, {} string keys, uniform, 1 thread", count(keys));
    let mut table = Table::new(["tollgate", "CPU ns per decision", "allowed, %"]);
    for subject in ["one by one", "one call"] {
        if let Some(figure) = figures.find(subject, CASE) {
            let (time, allowed) = (figure.cpu_ns(), figure.allowed() * 100.0);
            table.row([subject.to_owned(), format!("{time:.1}"), format!("{allowed:.1}")]);
        }
    }
    table.print();
    figures.ratio("one call", "one by one", CASE)
}
