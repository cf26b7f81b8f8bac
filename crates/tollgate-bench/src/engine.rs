//! The main table: every subject in every scenario.

use std::sync::Arc;

use crate::figures::{Case, Cell, Figures, Keys, Traffic};
use crate::measure::{Track, interleave, one_by_one};
use crate::options::Options;
use crate::report::Table;
use crate::subjects::{self, Drain, Subject};
use crate::workload::{self, Allowance, Key, Sequences, THREADS};

/// limitador takes microseconds a decision: a twentieth of the sequence is enough.
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
            cell.samples.push(cell.lane.run(cell.case.threads));
        });
        figures.add(cells);
    }
    figures
}

/// Traffic of one kind of key, the same for all subjects.
struct Course<K> {
    kind: Keys,
    keys: usize,
    hot: (Allowance, Sequences<K>),
    wide: Allowance,
    uniform: Sequences<K>,
    zipf: Sequences<K>,
}

impl<K: Key> Course<K> {
    fn new(kind: Keys, options: &Options) -> Course<K> {
        let Options { keys, decisions, .. } = *options;
        // Uniform and Zipf, with one and with two threads, meet in the same limiter.
        let total = options.rounds * decisions * (1 + THREADS);
        Course {
            kind,
            keys,
            hot: (Allowance::hot(total + 1), workload::hot(decisions)),
            wide: Allowance::wide(total * 2),
            uniform: workload::uniform(keys, decisions),
            zipf: workload::zipf(keys, decisions),
        }
    }

    /// The scenarios in which everything is allowed.
    fn allowed<S>(&self, cells: &mut Vec<Cell>, name: Name, build: impl Fn(Allowance) -> S)
    where
        S: Subject<K> + 'static,
    {
        let hot = Arc::new(build(self.hot.0));
        hot.allow(&K::of(0));
        self.enter(cells, name, &hot, Traffic::Hot, &self.hot.1, false);
        let wide = Arc::new(build(self.wide));
        for index in 0..self.keys {
            wide.allow(&K::of(index));
        }
        self.enter(cells, name, &wide, Traffic::Uniform, &self.uniform, false);
        self.enter(cells, name, &wide, Traffic::Zipf, &self.zipf, false);
    }

    /// The scenarios in which a drained hot key is denied always, and nine in ten of many keys:
    /// the same limits, only the buckets are empty.
    fn denied<S>(&self, cells: &mut Vec<Cell>, name: Name, build: impl Fn(Allowance) -> S)
    where
        S: Drain<K> + 'static,
    {
        let hot = Arc::new(build(self.hot.0));
        hot.drain(&K::of(0), self.hot.0.burst);
        self.enter(cells, name, &hot, Traffic::Hot, &self.hot.1, true);
        let tight = Arc::new(build(self.wide));
        for index in 0..self.keys {
            match workload::is_drained(index) {
                true => tight.drain(&K::of(index), self.wide.burst),
                false => assert!(tight.allow(&K::of(index)), "{} denied a new key", name.0),
            }
        }
        self.enter(cells, name, &tight, Traffic::Uniform, &self.uniform, true);
        self.enter(cells, name, &tight, Traffic::Zipf, &self.zipf, true);
    }

    /// One cell for each number of threads.
    fn enter<S: Subject<K> + 'static>(
        &self,
        cells: &mut Vec<Cell>,
        Name(subject, thin): Name,
        limiter: &Arc<S>,
        traffic: Traffic,
        sequences: &Sequences<K>,
        denied: bool,
    ) {
        cells.extend((1..=THREADS).map(|threads| Cell {
            subject,
            case: Case { keys: self.kind, traffic, denied, threads },
            lane: Box::new(Track {
                subject: limiter.clone(),
                sequences: sequences.clone(),
                ask: one_by_one::<S, K>,
                thin,
            }),
            samples: Vec::new(),
        }));
    }
}

/// A subject's name in the tables, and how much its sequence is thinned.
#[derive(Clone, Copy)]
struct Name(&'static str, usize);

const TOLLGATE: Name = Name("tollgate", 1);
const COARSE: Name = Name("tollgate, coarse clock", 1);
const GOVERNOR: Name = Name("governor", 1);
const THROTTLECRAB: Name = Name("throttlecrab", 1);
const LIMITADOR: Name = Name("limitador", LIMITADOR_THIN);

fn text(options: &Options) -> Vec<Cell> {
    let course = Course::<String>::new(Keys::Text, options);
    let limitador = |limit| subjects::limitador::Limitador::new(limit, options.keys);
    let mut cells = Vec::new();
    course.allowed(&mut cells, TOLLGATE, subjects::tollgate::Keyed::new);
    course.denied(&mut cells, TOLLGATE, subjects::tollgate::Keyed::new);
    course.allowed(&mut cells, COARSE, subjects::tollgate::Keyed::coarse);
    course.denied(&mut cells, COARSE, subjects::tollgate::Keyed::coarse);
    course.allowed(&mut cells, GOVERNOR, subjects::governor::Keyed::new);
    course.denied(&mut cells, GOVERNOR, subjects::governor::Keyed::new);
    course.allowed(&mut cells, THROTTLECRAB, subjects::throttlecrab::Throttlecrab::new);
    course.denied(&mut cells, THROTTLECRAB, subjects::throttlecrab::Throttlecrab::new);
    course.allowed(&mut cells, LIMITADOR, limitador);
    course.denied(&mut cells, LIMITADOR, limitador);
    cells
}

fn numbers(options: &Options) -> Vec<Cell> {
    let course = Course::<u64>::new(Keys::Number, options);
    let mut cells = Vec::new();
    course.allowed(&mut cells, TOLLGATE, subjects::tollgate::Keyed::new);
    course.allowed(&mut cells, GOVERNOR, subjects::governor::Keyed::new);
    cells
}

fn unkeyed(options: &Options) -> Vec<Cell> {
    fn enter<S: Drain<()> + 'static>(
        cells: &mut Vec<Cell>,
        course: &Course<()>,
        name: &'static str,
        build: fn(Allowance) -> S,
    ) {
        let (limit, sequences) = &course.hot;
        let [full, empty] = [(); 2].map(|()| Arc::new(build(*limit)));
        empty.drain(&(), limit.burst);
        course.enter(cells, Name(name, 1), &full, Traffic::Hot, sequences, false);
        course.enter(cells, Name(name, 1), &empty, Traffic::Hot, sequences, true);
    }
    // Sequences of `()` take no room; only their length counts.
    let course = Course::<()>::new(Keys::None, options);
    let mut cells = Vec::new();
    enter(&mut cells, &course, "tollgate", subjects::tollgate::Single::new);
    enter(&mut cells, &course, "tollgate, coarse clock", subjects::tollgate::Single::coarse);
    enter(&mut cells, &course, "governor", subjects::governor::Direct::new);
    enter(&mut cells, &course, "ratelimit", subjects::ratelimit::Ratelimit::new);
    enter(&mut cells, &course, "leaky-bucket", subjects::leaky_bucket::LeakyBucket::new);
    cells
}

/// Prints one table for each kind of key.
pub(crate) fn print(figures: &Figures, options: &Options) {
    let keys = crate::report::count(options.keys);
    let allowed = [Traffic::Hot, Traffic::Uniform, Traffic::Zipf].map(|traffic| (traffic, false));
    let denied = allowed.map(|(traffic, _)| (traffic, true));
    for (title, kind, columns) in [
        (format!("String keys, {keys}, all allowed"), Keys::Text, &allowed[..]),
        (format!("String keys, {keys}, 90 % denied"), Keys::Text, &denied[..]),
        (format!("Integer keys, {keys}, all allowed"), Keys::Number, &allowed[..]),
        ("One limit without keys".to_owned(), Keys::None, &[allowed[0], denied[0]][..]),
    ] {
        println!("\n{title}: thread CPU ns per decision, 1 thread / 2 threads");
        table(figures, kind, columns).print();
    }
}

fn table(figures: &Figures, keys: Keys, columns: &[(Traffic, bool)]) -> Table {
    let heads = columns.iter().map(|column| match column {
        (Traffic::Hot, false) if keys == Keys::None => "all allowed",
        (Traffic::Hot, false) => "one hot key",
        (Traffic::Hot, true) if keys == Keys::None => "all denied",
        (Traffic::Hot, true) => "one hot key, all denied",
        (Traffic::Uniform, _) => "uniform",
        (Traffic::Zipf, _) => "Zipf 1.05",
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

/// The least and the greatest, or one number where they look the same.
fn range(values: impl Iterator<Item = f64> + Clone) -> String {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let (least, most) = (format!("{least:.1}"), format!("{most:.1}"));
    if least == most { least } else { format!("{least}–{most}") }
}
