//! The cost of fair shares as tenants grow: requests that their own share covers, and those that borrow.

use std::sync::Arc;

use tollgate_rules::{Request, RuleLimiter};

use super::{CASE, workload};
use crate::figures::{Cell, Figures};
use crate::measure::{SubjectTrial, interleave, one_by_one};
use crate::options::Options;
use crate::report::{Table, count};
use crate::subjects::Subject;

const TENANTS: [usize; 4] = [1, 16, 128, 1_024];
const RULES: &str =
    "attributes: [org]\nrules: [{ name: api, limit: 1M/s burst 100k, fair: { by: org } }]";

const OWN: &str = "own share";
const BORROWED: &str = "borrowed";

/// Measures and prints.
pub(super) fn run(options: &Options) {
    println!("\nFair shares, 1 thread: thread CPU ns per request by number of tenants");
    let mut table = Table::new(["tenants", OWN, BORROWED]);
    for tenants in TENANTS {
        let mut cells = vec![
            cell(OWN, tenants, None, options),
            // Three of four requests are from the greedy tenant.
            cell(BORROWED, tenants, Some("greedy".to_owned()), options),
        ];
        interleave(&format!("{} tenants", count(tenants)), options.rounds, &mut cells, |cell| {
            cell.samples.push(cell.trial.run(1));
        });
        let mut figures = Figures::default();
        figures.add(cells);
        let time = |subject| figures.find(subject, CASE).map_or(f64::NAN, |f| f.cpu_ns());
        let [own, borrowed] = [OWN, BORROWED].map(|subject| format!("{:.0}", time(subject)));
        table.row([count(tenants), own, borrowed]);
    }
    table.print();
}

fn cell(subject: &'static str, tenants: usize, greedy: Option<String>, options: &Options) -> Cell {
    let rules = RULES.parse().unwrap_or_else(|error| panic!("{error}"));
    let names = (0..tenants).map(|tenant| format!("tenant-{tenant}")).collect();
    let limiter = Arc::new(FairSubject { limiter: RuleLimiter::new(rules), names, greedy });
    let sequences = workload::sequences(options.decisions);
    sequences[0].iter().take(options.decisions / 4).for_each(|sample| {
        limiter.allow(sample);
    });
    let trial = SubjectTrial {
        subject: limiter,
        sequences,
        decide_all: one_by_one::<FairSubject, u32>,
        thin: 4,
    };
    Cell { subject, case: CASE, trial: Box::new(trial), samples: Vec::new() }
}

/// Tenants that take turns, and possibly a greedy one.
struct FairSubject {
    limiter: RuleLimiter,
    names: Vec<String>,
    greedy: Option<String>,
}

impl Subject<u32> for FairSubject {
    #[inline]
    fn allow(&self, sample: &u32) -> bool {
        let sample = *sample as usize;
        let org = match &self.greedy {
            Some(greedy) if !sample.is_multiple_of(4) => greedy,
            Some(_) => &self.names[sample / 4 % self.names.len()],
            None => &self.names[sample % self.names.len()],
        };
        self.limiter.decide_now(&Request::empty().attribute("org", org.as_str())).allowed
    }
}
