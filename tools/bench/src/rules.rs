//! Requests decided by rules: the cost of matching as rules grow, compared with limitador.
//!
//! A third of the rules are routes, a third match an attribute's exact value, a third a pattern. Every
//! request of the main traffic matches one rule of each kind, whatever the number of rules. The other
//! traffic matches none, so that only matching is measured.

mod fair;
mod workload;

use std::collections::HashMap;
use std::sync::Arc;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace, Predicate};
use tollgate_rules::{Request, RuleLimiter, Rules};

use crate::figures::{Case, Cell, Figures, KeyDistribution, KeyKind};
use crate::measure::{SubjectTrial, interleave, one_by_one};
use crate::options::Options;
use crate::report::{Table, count};
use crate::subjects::Subject;
use workload::{PER_MINUTE, RequestSample, RuleKind, rule_kind};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const CASE: Case =
    Case { keys: KeyKind::Text, traffic: KeyDistribution::Uniform, denied: false, threads: 1 };

const MATCH: &str = "match";
const DECIDE: &str = "match and decide";
const PEER: &str = "limitador";

/// The most that 10 000 rules may cost relative to 10.
const MOST_GROWTH: f64 = 3.0;
/// The most that tollgate may cost relative to limitador.
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
    let limiter = Arc::new(TollgateRules::new(rules, true));
    let unmatched = Arc::new(TollgateRules {
        samples: workload::samples(rules, false),
        ..limiter.without_samples()
    });
    let peer = Arc::new(LimitadorRules::new(rules));
    let mut cells = vec![
        cell(MATCH, unmatched, options.decisions, 4),
        cell(DECIDE, limiter, options.decisions, 4),
        // limitador evaluates every rule: it is thousands of times slower, so it gets fewer requests.
        cell(PEER, peer, options.decisions, 10 * rules),
    ];
    interleave(&format!("{} rules", count(rules)), options.rounds, &mut cells, |cell| {
        cell.samples.push(cell.trial.run(1));
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
    let decide_all = one_by_one::<S, u32>;
    let trial = SubjectTrial { subject: limiter, sequences, decide_all, thin };
    Cell { subject, case: CASE, trial: Box::new(trial), samples: Vec::new() }
}

/// tollgate with rules.
struct TollgateRules {
    limiter: RuleLimiter,
    samples: Vec<RequestSample>,
}

impl TollgateRules {
    fn new(rules: usize, matching: bool) -> TollgateRules {
        let rule = |number: usize| {
            let matched = match rule_kind(number) {
                RuleKind::Route => format!("route: \"GET /api/r{number}/{{id}}\""),
                RuleKind::Exact => format!("when: 'org == \"t{number}\"'"),
                RuleKind::Pattern => format!("when: {{ user: \"svc{number}-*\" }}"),
            };
            format!(
                "  - {{ name: r{number}, {matched}, per: user, limit: {PER_MINUTE}/min fixed }}\n"
            )
        };
        let text = format!(
            "attributes: [org, user]\nrules:\n{}",
            (0..rules).map(rule).collect::<String>()
        );
        let parsed: Rules = text.parse().unwrap_or_else(|error| panic!("{error}"));
        TollgateRules {
            limiter: RuleLimiter::new(parsed),
            samples: workload::samples(rules, matching),
        }
    }

    /// Returns the limiter without requests.
    fn without_samples(&self) -> TollgateRules {
        TollgateRules { limiter: self.limiter.clone(), samples: Vec::new() }
    }
}

impl Subject<u32> for TollgateRules {
    #[inline]
    fn allow(&self, sample: &u32) -> bool {
        let RequestSample { path, org, user } = &self.samples[*sample as usize];
        let request = Request::new("GET", path).attribute("org", org).attribute("user", user);
        self.limiter.decide_now(&request).allowed
    }
}

/// limitador with the same rules, called as its server calls it.
struct LimitadorRules {
    limiter: RateLimiter,
    namespace: Namespace,
    samples: Vec<RequestSample>,
}

impl LimitadorRules {
    fn new(rules: usize) -> LimitadorRules {
        let samples = workload::samples(rules, true);
        let limiter = RateLimiter::new(samples.len() as u64 * 6);
        for number in 0..rules {
            let conditions = match rule_kind(number) {
                RuleKind::Route => {
                    vec![
                        "method == 'GET'".to_owned(),
                        format!("path.startsWith('/api/r{number}/')"),
                    ]
                }
                RuleKind::Exact => vec![format!("org == 't{number}'")],
                RuleKind::Pattern => vec![format!("user.startsWith('svc{number}-')")],
            };
            let conditions: Vec<Predicate> = conditions
                .into_iter()
                .map(|text| text.try_into().expect("a valid condition"))
                .collect();
            let user = "user".try_into().expect("a valid expression");
            limiter.add_limit(Limit::new("bench", PER_MINUTE, 60, conditions, vec![user]));
        }
        LimitadorRules { limiter, namespace: "bench".into(), samples }
    }
}

impl Subject<u32> for LimitadorRules {
    #[inline]
    fn allow(&self, sample: &u32) -> bool {
        let RequestSample { path, org, user } = &self.samples[*sample as usize];
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
