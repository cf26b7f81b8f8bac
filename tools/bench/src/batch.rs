//! Many decisions in one call, compared with the same decisions one by one.

use std::sync::Arc;

use crate::figures::{Case, Cell, Figures, KeyDistribution, KeyKind, Ratio};
use crate::measure::{SubjectTrial, in_batches, interleave, one_by_one};
use crate::options::Options;
use crate::report::{Table, count};
use crate::subjects::{BATCH, Subject, tollgate::TollgateKeyed};
use crate::workload::{self, Allowance, Key};

const CASE: Case =
    Case { keys: KeyKind::Text, traffic: KeyDistribution::Uniform, denied: false, threads: 1 };

/// Measures, prints, and returns the ratio of the two.
pub(crate) fn run(options: &Options) -> Option<Ratio> {
    let Options { keys, decisions, rounds, .. } = *options;
    let limiter = Arc::new(TollgateKeyed::new(Allowance::wide(rounds * decisions * 2)));
    let sequences = workload::uniform::<String>(keys, decisions);
    for index in 0..keys {
        limiter.allow(&String::from_index(index));
    }
    let mut cells = [("one by one", one_by_one as _), ("one call", in_batches as _)].map(
        |(subject, decide_all)| Cell {
            subject,
            case: CASE,
            trial: Box::new(SubjectTrial {
                subject: limiter.clone(),
                sequences: sequences.clone(),
                decide_all,
                thin: 1,
            }),
            samples: Vec::new(),
        },
    );
    interleave("batch", rounds, &mut cells, |cell| cell.samples.push(cell.trial.run(1)));
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
