//! Requests decided by rules: what matching costs as rules grow, and against limitador with the
//! same rules.
//!
//! A third of the rules are routes, a third ask for an attribute's exact value, a third for a
//! pattern. Every request of the main traffic matches one rule of each kind, whatever the number
//! of rules; of the other traffic none matches, so that only matching is left to measure.

mod fair;
mod workload;

use std::collections::HashMap;
use std::sync::Arc;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace, Predicate};
use tollgate::rules::RuleLimiter;
use tollgate::{Limiter, Request, Rules};

use crate::figures::{Case, Cell, Figures, Keys, Traffic};
use crate::measure::{Track, interleave, one_by_one};
use crate::options::Options;
use crate::report::{Table, count};
use crate::subjects::Subject;
use workload::{Kind, PER_MINUTE, Sample, kind};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const CASE: Case = Case { keys: Keys::Text, traffic: Traffic::Uniform, denied: false, threads: 1 };

const MATCH: &str = "match";
const DECIDE: &str = "match and decide";
const PEER: &str = "limitador";

/// Of 10 000 rules over 10.
const MOST_GROWTH: f64 = 3.0;
/// Of limitador's time.
const MOST_OF_PEER: f64 = 0.3;

/// Measures and prints.
pub(crate) fn run(options: &Options) {
    println!("\nRules, 1 thread: thread CPU ns per request by number of rules");
    let mut table = Table::new(["rules", MATCH, DECIDE, PEER, "ratio"]);
    let mut targets = Vec::new();
    let mut small: Option<[f64; 2]> = None;
    for rules in SIZES {
        let figures = measure(rules, options);
        let time = |subject| figures.find(subject, CASE).map_or(f64::NAN, |f| f.cpu_ns());
        let ratio = figures.ratio(DECIDE, PEER, CASE).map_or(f64::NAN, |ratio| ratio.value);
        let ours = [time(MATCH), time(DECIDE)];
        let first = *small.get_or_insert(ours);
        if rules == SIZES[SIZES.len() - 1] {
            for (what, (ours, first)) in [MATCH, DECIDE].iter().zip(ours.iter().zip(first)) {
                let what = format!("{what}, {} rules / {} rules", count(rules), count(SIZES[0]));
                targets.push((what, ours / first, MOST_GROWTH));
            }
        }
        targets.push((format!("tollgate / {PEER}, {} rules", count(rules)), ratio, MOST_OF_PEER));
        let [matching, deciding] = ours.map(|time| format!("{time:.0}"));
        let peer = format!("{:.0}", time(PEER));
        table.row([count(rules), matching, deciding, peer, format!("{ratio:.3}")]);
    }
    table.print();

    println!("\nTargets (medians of this run)");
    let mut table = Table::new(["target", "measured", "at most", ""]);
    for (what, measured, most) in targets {
        let verdict = if measured <= most { "met" } else { "MISSED" };
        table.row([what, format!("{measured:.3}"), format!("{most:.2}"), verdict.to_owned()]);
    }
    table.print();
    fair::run(options);
}

fn measure(rules: usize, options: &Options) -> Figures {
    let limiter = Arc::new(Ours::new(rules, true));
    let strangers = Arc::new(Ours { samples: workload::samples(rules, false), ..limiter.alike() });
    let peer = Arc::new(Theirs::new(rules));
    let mut cells = vec![
        cell(MATCH, strangers, options.decisions, 4),
        cell(DECIDE, limiter, options.decisions, 4),
        // It asks every rule: thousands of times slower, hence fewer requests.
        cell(PEER, peer, options.decisions, 10 * rules),
    ];
    interleave(&format!("{} rules", count(rules)), options.rounds, &mut cells, |cell| {
        cell.samples.push(cell.lane.run(1));
    });
    let mut figures = Figures::default();
    figures.add(cells);
    figures
}

fn cell<S: Subject<u32> + 'static>(
    subject: &'static str,
    limiter: Arc<S>,
    decisions: usize,
    thin: usize,
) -> Cell {
    let sequences = workload::sequences(decisions);
    // Every counter exists before the first round, and nothing is refused.
    assert!(sequences[0].iter().take(decisions / thin).all(|sample| limiter.allow(sample)));
    let ask = one_by_one::<S, u32>;
    let lane = Track { subject: limiter, sequences, ask, thin };
    Cell { subject, case: CASE, lane: Box::new(lane), samples: Vec::new() }
}

/// tollgate with rules.
struct Ours {
    limiter: RuleLimiter,
    samples: Vec<Sample>,
}

impl Ours {
    fn new(rules: usize, matching: bool) -> Ours {
        let rule = |number: usize| {
            let matched = match kind(number) {
                Kind::Route => format!("route: \"GET /api/r{number}/{{id}}\""),
                Kind::Exact => format!("when: 'org == \"t{number}\"'"),
                Kind::Pattern => format!("when: {{ user: \"svc{number}-*\" }}"),
            };
            format!(
                "  - {{ name: r{number}, {matched}, per: user, limit: {PER_MINUTE}/min fixed }}\n"
            )
        };
        let text = format!("rules:\n{}", (0..rules).map(rule).collect::<String>());
        let parsed: Rules = text.parse().unwrap_or_else(|error| panic!("{error}"));
        Ours { limiter: Limiter::from_rules(parsed), samples: workload::samples(rules, matching) }
    }

    /// The same limiter with no requests.
    fn alike(&self) -> Ours {
        Ours { limiter: self.limiter.clone(), samples: Vec::new() }
    }
}

impl Subject<u32> for Ours {
    #[inline]
    fn allow(&self, sample: &u32) -> bool {
        let Sample { path, org, user } = &self.samples[*sample as usize];
        let request = Request::new("GET", path).attribute("org", org).attribute("user", user);
        self.limiter.decide(&request).allowed
    }
}

/// limitador with the same rules, asked as its server does it.
struct Theirs {
    limiter: RateLimiter,
    namespace: Namespace,
    samples: Vec<Sample>,
}

impl Theirs {
    fn new(rules: usize) -> Theirs {
        let samples = workload::samples(rules, true);
        let limiter = RateLimiter::new(samples.len() as u64 * 6);
        for number in 0..rules {
            let conditions = match kind(number) {
                Kind::Route => {
                    vec![
                        "method == 'GET'".to_owned(),
                        format!("path.startsWith('/api/r{number}/')"),
                    ]
                }
                Kind::Exact => vec![format!("org == 't{number}'")],
                Kind::Pattern => vec![format!("user.startsWith('svc{number}-')")],
            };
            let conditions: Vec<Predicate> = conditions
                .into_iter()
                .map(|text| text.try_into().expect("a valid condition"))
                .collect();
            let user = "user".try_into().expect("a valid expression");
            limiter.add_limit(Limit::new("bench", PER_MINUTE, 60, conditions, vec![user]));
        }
        Theirs { limiter, namespace: "bench".into(), samples }
    }
}

impl Subject<u32> for Theirs {
    #[inline]
    fn allow(&self, sample: &u32) -> bool {
        let Sample { path, org, user } = &self.samples[*sample as usize];
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let values = HashMap::from([
            pair("method", "GET"),
            pair("path", path),
            pair("org", org),
            pair("user", user),
        ]);
        let context = Context::from(values);
        let checked = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
        checked.is_ok_and(|result| !result.limited)
    }
}
