//! Time per decision as the table grows: only cache misses should make it slower.

use std::sync::Arc;

use crate::figures::{Case, Cell, Figures, KeyDistribution, KeyKind};
use crate::measure::{SubjectTrial, interleave, one_by_one};
use crate::options::Options;
use crate::report::{Table, count};
use crate::subjects::{Subject, governor, tollgate};
use crate::workload::{self, Allowance, Key, Sequences};

const CASE: Case =
    Case { keys: KeyKind::Text, traffic: KeyDistribution::Uniform, denied: false, threads: 1 };
const SIZES: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Measures and prints.
pub(crate) fn run(options: &Options) {
    println!("\nString keys, uniform, 1 thread: thread CPU ns per decision by size of the table");
    let mut table = Table::new(["keys", "tollgate", "governor", "ratio"]);
    for keys in SIZES.into_iter().filter(|&keys| keys <= options.most_keys) {
        let figures = measure(keys, options);
        let time = |subject| figures.find(subject, CASE).map_or(f64::NAN, |f| f.cpu_ns());
        let ratio = figures.ratio("tollgate", "governor", CASE).map_or(f64::NAN, |r| r.value);
        table.row([
            count(keys),
            format!("{:.1}", time("tollgate")),
            format!("{:.1}", time("governor")),
            format!("{ratio:.2}"),
        ]);
    }
    table.print();
}

fn measure(keys: usize, options: &Options) -> Figures {
    let Options { decisions, rounds, .. } = *options;
    // In small tables every key is used often: the limit allows all decisions on a few keys.
    let limit = Allowance::wide(rounds * decisions);
    let sequences = workload::uniform::<String>(keys, decisions);
    let mut cells = vec![
        cell("tollgate", tollgate::TollgateKeyed::new(limit), keys, &sequences),
        cell("governor", governor::GovernorKeyed::new(limit), keys, &sequences),
    ];
    interleave(&count(keys), rounds, &mut cells, |cell| cell.samples.push(cell.trial.run(1)));
    let mut figures = Figures::default();
    figures.add(cells);
    figures
}

fn cell<S: Subject<String> + 'static>(
    subject: &'static str,
    limiter: S,
    keys: usize,
    sequences: &Sequences<String>,
) -> Cell {
    for index in 0..keys {
        limiter.allow(&String::from_index(index));
    }
    let trial = SubjectTrial {
        subject: Arc::new(limiter),
        sequences: sequences.clone(),
        decide_all: one_by_one::<S, String>,
        thin: 1,
    };
    Cell { subject, case: CASE, trial: Box::new(trial), samples: Vec::new() }
}
