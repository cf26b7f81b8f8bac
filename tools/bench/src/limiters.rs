//! The main table: every subject in every scenario.

use std::sync::Arc;

use crate::figures::{Case, Cell, Figures, KeyDistribution, KeyKind};
use crate::measure::{SubjectTrial, interleave, one_by_one};
use crate::options::Options;
use crate::report::Table;
use crate::subjects::{self, Drain, Subject};
use crate::workload::{self, Allowance, Key, Sequences, THREADS};

/// limitador takes microseconds per decision: a twentieth of the sequence is enough.
const LIMITADOR_THIN: usize = 20;

/// Measures all scenarios.
pub(crate) fn measure(options: &Options) -> Figures {
    let mut figures = Figures::default();
    for (what, build) in [
        ("string keys", text as fn(&Options) -> Vec<Cell>),
        ("integer keys", numbers),
        ("no keys", unkeyed),
    ] {
        let mut cells = build(options);
        interleave(what, options.rounds, &mut cells, |cell| {
            cell.samples.push(cell.trial.run(cell.case.threads));
        });
        figures.add(cells);
    }
    figures
}

/// The traffic of one type of key, equal for all subjects.
struct KeyTraffic<K> {
    kind: KeyKind,
    keys: usize,
    hot: (Allowance, Sequences<K>),
    wide: Allowance,
    uniform: Sequences<K>,
    zipf: Sequences<K>,
}

impl<K: Key> KeyTraffic<K> {
    fn new(kind: KeyKind, options: &Options) -> KeyTraffic<K> {
        let Options { keys, decisions, .. } = *options;
        // One limiter gets uniform and Zipf traffic, with one and with two threads.
        let total = options.rounds * decisions * (1 + THREADS);
        KeyTraffic {
            kind,
            keys,
            hot: (Allowance::hot(total + 1), workload::hot(decisions)),
            wide: Allowance::wide(total * 2),
            uniform: workload::uniform(keys, decisions),
            zipf: workload::zipf(keys, decisions),
        }
    }

    /// Adds the scenarios in which everything is allowed.
    fn allowed<S>(&self, cells: &mut Vec<Cell>, name: SubjectName, build: impl Fn(Allowance) -> S)
    where
        S: Subject<K> + 'static,
    {
        let hot = Arc::new(build(self.hot.0));
        hot.allow(&K::from_index(0));
        self.add_cells(cells, name, &hot, KeyDistribution::Hot, &self.hot.1, false);
        let wide = Arc::new(build(self.wide));
        for index in 0..self.keys {
            wide.allow(&K::from_index(index));
        }
        self.add_cells(cells, name, &wide, KeyDistribution::Uniform, &self.uniform, false);
        self.add_cells(cells, name, &wide, KeyDistribution::Zipf, &self.zipf, false);
    }

    /// Adds the scenarios in which a drained hot key is denied always, and nine in ten of many keys.
    ///
    /// The limits are equal, only the buckets are empty.
    fn denied<S>(&self, cells: &mut Vec<Cell>, name: SubjectName, build: impl Fn(Allowance) -> S)
    where
        S: Drain<K> + 'static,
    {
        let hot = Arc::new(build(self.hot.0));
        hot.drain(&K::from_index(0), self.hot.0.burst);
        self.add_cells(cells, name, &hot, KeyDistribution::Hot, &self.hot.1, true);
        let tight = Arc::new(build(self.wide));
        for index in 0..self.keys {
            match workload::is_drained(index) {
                true => tight.drain(&K::from_index(index), self.wide.burst),
                false => assert!(tight.allow(&K::from_index(index)), "{} denied a new key", name.0),
            }
        }
        self.add_cells(cells, name, &tight, KeyDistribution::Uniform, &self.uniform, true);
        self.add_cells(cells, name, &tight, KeyDistribution::Zipf, &self.zipf, true);
    }

    /// Adds one cell for each number of threads.
    fn add_cells<S: Subject<K> + 'static>(
        &self,
        cells: &mut Vec<Cell>,
        SubjectName(subject, thin): SubjectName,
        limiter: &Arc<S>,
        traffic: KeyDistribution,
        sequences: &Sequences<K>,
        denied: bool,
    ) {
        cells.extend((1..=THREADS).map(|threads| Cell {
            subject,
            case: Case { keys: self.kind, traffic, denied, threads },
            trial: Box::new(SubjectTrial {
                subject: limiter.clone(),
                sequences: sequences.clone(),
                decide_all: one_by_one::<S, K>,
                thin,
            }),
            samples: Vec::new(),
        }));
    }
}

/// A subject's name in the tables, and the factor by which its sequence is thinned.
#[derive(Clone, Copy)]
struct SubjectName(&'static str, usize);

const TOLLGATE: SubjectName = SubjectName("tollgate", 1);
const COARSE: SubjectName = SubjectName("tollgate, coarse clock", 1);
const GOVERNOR: SubjectName = SubjectName("governor", 1);
const THROTTLECRAB: SubjectName = SubjectName("throttlecrab", 1);
const LIMITADOR: SubjectName = SubjectName("limitador", LIMITADOR_THIN);

fn text(options: &Options) -> Vec<Cell> {
    let traffic = KeyTraffic::<String>::new(KeyKind::Text, options);
    let limitador = |limit| subjects::limitador::Limitador::new(limit, options.keys);
    let mut cells = Vec::new();
    traffic.allowed(&mut cells, TOLLGATE, subjects::tollgate::TollgateKeyed::new);
    traffic.denied(&mut cells, TOLLGATE, subjects::tollgate::TollgateKeyed::new);
    traffic.allowed(&mut cells, COARSE, subjects::tollgate::TollgateKeyed::coarse);
    traffic.denied(&mut cells, COARSE, subjects::tollgate::TollgateKeyed::coarse);
    traffic.allowed(&mut cells, GOVERNOR, subjects::governor::GovernorKeyed::new);
    traffic.denied(&mut cells, GOVERNOR, subjects::governor::GovernorKeyed::new);
    traffic.allowed(&mut cells, THROTTLECRAB, subjects::throttlecrab::Throttlecrab::new);
    traffic.denied(&mut cells, THROTTLECRAB, subjects::throttlecrab::Throttlecrab::new);
    traffic.allowed(&mut cells, LIMITADOR, limitador);
    traffic.denied(&mut cells, LIMITADOR, limitador);
    cells
}

fn numbers(options: &Options) -> Vec<Cell> {
    let traffic = KeyTraffic::<u64>::new(KeyKind::Number, options);
    let mut cells = Vec::new();
    traffic.allowed(&mut cells, TOLLGATE, subjects::tollgate::TollgateKeyed::new);
    traffic.allowed(&mut cells, GOVERNOR, subjects::governor::GovernorKeyed::new);
    cells
}

fn unkeyed(options: &Options) -> Vec<Cell> {
    fn add_cells<S: Drain<()> + 'static>(
        cells: &mut Vec<Cell>,
        traffic: &KeyTraffic<()>,
        name: &'static str,
        build: fn(Allowance) -> S,
    ) {
        let (limit, sequences) = &traffic.hot;
        let [full, empty] = [(); 2].map(|()| Arc::new(build(*limit)));
        empty.drain(&(), limit.burst);
        traffic.add_cells(
            cells,
            SubjectName(name, 1),
            &full,
            KeyDistribution::Hot,
            sequences,
            false,
        );
        traffic.add_cells(
            cells,
            SubjectName(name, 1),
            &empty,
            KeyDistribution::Hot,
            sequences,
            true,
        );
    }
    // Sequences of `()` need no memory; only their length counts.
    let traffic = KeyTraffic::<()>::new(KeyKind::None, options);
    let mut cells = Vec::new();
    add_cells(&mut cells, &traffic, "tollgate", subjects::tollgate::TollgateSingle::new);
    add_cells(
        &mut cells,
        &traffic,
        "tollgate, coarse clock",
        subjects::tollgate::TollgateSingle::coarse,
    );
    add_cells(&mut cells, &traffic, "governor", subjects::governor::GovernorDirect::new);
    add_cells(&mut cells, &traffic, "ratelimit", subjects::ratelimit::Ratelimit::new);
    add_cells(&mut cells, &traffic, "leaky-bucket", subjects::leaky_bucket::LeakyBucket::new);
    cells
}

/// Prints one table for each type of key.
pub(crate) fn print(figures: &Figures, options: &Options) {
    let keys = crate::report::count(options.keys);
    let allowed = [KeyDistribution::Hot, KeyDistribution::Uniform, KeyDistribution::Zipf]
        .map(|traffic| (traffic, false));
    let denied = allowed.map(|(traffic, _)| (traffic, true));
    for (title, kind, columns) in [
        (format!("String keys, {keys}, all allowed"), KeyKind::Text, &allowed[..]),
        (format!("String keys, {keys}, 90 % denied"), KeyKind::Text, &denied[..]),
        (format!("Integer keys, {keys}, all allowed"), KeyKind::Number, &allowed[..]),
        ("One limit without keys".to_owned(), KeyKind::None, &[allowed[0], denied[0]][..]),
    ] {
        println!("\n{title}: thread CPU ns per decision, 1 thread / 2 threads");
        table(figures, kind, columns).print();
    }
}

fn table(figures: &Figures, keys: KeyKind, columns: &[(KeyDistribution, bool)]) -> Table {
    let heads = columns.iter().map(|column| match column {
        (KeyDistribution::Hot, false) if keys == KeyKind::None => "all allowed",
        (KeyDistribution::Hot, false) => "one hot key",
        (KeyDistribution::Hot, true) if keys == KeyKind::None => "all denied",
        (KeyDistribution::Hot, true) => "one hot key, all denied",
        (KeyDistribution::Uniform, _) => "uniform",
        (KeyDistribution::Zipf, _) => "Zipf 1.05",
    });
    let mut table = Table::new(["limiter"].into_iter().chain(heads).chain(["allowed, %"]));
    for subject in figures.subjects(keys) {
        let mut row = vec![subject.to_owned()];
        let mut shares = Vec::new();
        for &(traffic, denied) in columns {
            let case = |threads| Case { keys, traffic, denied, threads };
            let found = (1..=THREADS).filter_map(|threads| figures.find(subject, case(threads)));
            let found: Vec<_> = found.collect();
            let times: Vec<_> = found.iter().map(|f| format!("{:.1}", f.cpu_ns())).collect();
            row.push(times.join(" / "));
            shares.push(range(found.iter().map(|f| f.allowed() * 100.0)));
        }
        row.push(shares.join(", "));
        table.row(row);
    }
    table
}

/// Returns the least and the greatest, or one number where they are printed alike.
fn range(values: impl Iterator<Item = f64> + Clone) -> String {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let (least, most) = (format!("{least:.1}"), format!("{most:.1}"));
    if least == most { least } else { format!("{least}–{most}") }
}
