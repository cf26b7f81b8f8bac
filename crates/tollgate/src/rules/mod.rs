//! Rules: who may do how much, written down in YAML.
//!
//! ```
//! use tollgate::{Limiter, Request, Rules};
//!
//! let rules: Rules = r#"
//! plans:
//!   default: { api: 60/h }
//!   pro: { api: 5k/h burst 200 }
//! rules:
//!   - { name: health, route: GET /health, then: allow }
//!   - { name: edge, per: ip, limit: 10/s burst 20 }
//!   - { name: api, per: org, limit: plan.api }
//!   - { name: login, route: POST /login, per: ip, limit: [5/min, 20/h sliding] }
//! "#.parse()?;
//! let limiter = Limiter::from_rules(rules);
//!
//! let request = Request::new("POST", "/login").peer("203.0.113.7".parse().unwrap());
//! let decision = limiter.decide(&request);
//! assert!(decision.allowed);
//! assert_eq!(decision.rule(), Some("login")); // closest to its end: 4 of 5 are left
//! # Ok::<(), tollgate::rules::Diagnostics>(())
//! ```
//!
//! What happens over a limit is up to the rule: [`Then`] has an example of each action.
//!
//! The language is described in `docs/rules.md`. A text goes through three steps, each of which
//! reports everything it finds wrong with the place it stands at:
//!
//! 1. **read** (`yaml`, `read`): YAML to what was [written](Rules), field by field;
//! 2. **compile** (`compile`): names are looked up, expressions compiled, limits bound to their
//!    counters, risky rules warned of;
//! 3. **match and decide** (`matcher`, `demand`, `decide`): a [`Request`] to the rules that match it,
//!    their checks, one call to the store, one [`Decision`].
//!
//! # Identity
//!
//! A counter is a bucket and a key. The bucket's number is a hash of the domain, the bucket's name and
//! the limit; the [key](encode_key) an injective text of the values of `per`. Both are the same in
//! every process and every store, and independent of where a rule stands in its file. A limit that is
//! edited has another bucket; [`RuleLimiter::replace`] carries its counters over.
//!
//! # What was rejected
//!
//! *Deserialising into structs*: it stops at the first error. *One type for files and compiled
//! rules*: a file is full of names and places that a decision must not pay for. *First match wins*:
//! limits compose, so every rule that matches applies. *A language of our own for conditions*: CEL is
//! known and specified; ours is only a shorter road for its plain cases.

mod address;
mod adjust;
mod adjust_key;
mod aside;
mod ask_envoy;
mod attribute;
mod ban_book;
mod bans;
mod body_fields;
mod cases;
mod compile;
mod compiled;
mod conclude;
mod data;
mod decide;
mod decision;
mod dedupe;
mod deferring;
mod demand;
mod diagnostic;
mod door;
pub mod envoy;
mod explain;
mod expr;
mod facts;
mod fair;
mod fault;
mod glob;
mod held;
mod info;
mod installed;
mod key;
mod ladder;
mod leases;
mod limiter;
mod lists;
mod load;
mod local;
mod matcher;
mod mend;
mod modes;
mod moment;
mod overrides;
mod overruns;
mod owed;
mod path;
mod per_upstream;
mod policy;
mod read;
mod report;
mod request;
mod room;
mod route;
mod schedule;
mod settled;
mod source;
mod suggest;
mod value;
mod without_store;
mod words;
mod written;
mod yaml;

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use tollgate_core::Time;

pub use address::rightmost_stranger;
pub use adjust::Adjustment;
pub use adjust_key::KeyAdjustment;
pub use ban_book::LadderBan;
pub use cases::CaseResult;
pub use data::{BanData, Data, DataError, ListData, ModeData, OverrideData};
pub use decision::{Decision, LimitStatus, Reason, RulePlace};
pub use deferring::DeferLine;
pub use diagnostic::{CODES, Diagnostic, Diagnostics, Finding, Severity};
pub use door::Door;
pub use explain::{Explanation, LimitExplanation, RuleExplanation};
pub use fair::FairTenants;
pub use glob::matches as glob_matches;
pub use info::RuleInfo;
pub use key::encode_key;
pub use leases::Keeping;
pub use limiter::RuleLimiter;
pub use load::LoadError;
pub use path::{UnsoundPath, sound_path};
pub use policy::{Ban, MissingKey, Mode, OnError, Priority, Queue, Shed, Then, Unmatched};
pub use request::{HeaderSource, Request};
pub use room::{InLine, Waits};
pub use settled::SettledAs;
pub use source::Source;
pub use value::Value;

use cases::DomainCase;
use compiled::Domain;
use envoy::Tree;
use mend::Mended;

/// Rules that were read, checked and compiled. Clones share them.
///
/// ```
/// use tollgate::Rules;
///
/// let rules: Rules = "
/// domain: shop
/// rules:
///   - { name: edge, per: ip, limit: 10/s burst 20 }
/// ".parse()?;
/// assert!(rules.warnings().is_empty());
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rules(Arc<Set>);

#[derive(Debug)]
struct Set {
    domains: Vec<Domain>,
    by_name: HashMap<Box<str>, usize>,
    /// Domains that were written for Envoy's rate limit service.
    trees: HashMap<Box<str>, Arc<Tree>>,
    /// Those that were switched off.
    trees_off: HashMap<Box<str>, modes::Set>,
    cases: Vec<DomainCase>,
    /// What is doubtful about them.
    found: Diagnostics,
}

impl Rules {
    /// Reads texts. Each is a domain of its own.
    pub fn read(sources: impl IntoIterator<Item = Source>) -> Result<Rules, Diagnostics> {
        let sources: Arc<[Source]> = sources.into_iter().collect();
        let mut found = Diagnostics::new(sources.clone());
        let mut domains = Vec::new();
        let mut by_name = HashMap::new();
        let mut cases = Vec::new();
        let mut trees = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let mended;
            let parsed = match yaml::parse(&source.text, number as u32) {
                Err(problem) if problem.code == mend::UNQUOTED => {
                    mended = Mended::new(&source.text, number as u32);
                    mended.found.iter().for_each(|mend| found.push(mend.clone()));
                    mended.parse(number as u32)
                }
                parsed => parsed,
            };
            let root = match parsed {
                Ok(root) => root,
                Err(error) => {
                    found.push(error);
                    continue;
                }
            };
            if envoy::is_envoy(&root) {
                trees.extend(envoy::read(&root, &mut found));
                continue;
            }
            let document = read::document(&root, &mut found);
            drop(root); // What is compiled needs the room.
            let domain = compile::domain(&document, &mut found);
            if by_name.insert(domain.name.clone(), domains.len()).is_some() {
                let place = document.domain.as_ref().map_or(document.place, |name| name.place);
                found.push(duplicate_domain(&domain.name, place));
            }
            let case = |case| DomainCase { domain: domain.name.clone(), case };
            cases.extend(document.cases.into_iter().map(case));
            domains.push(domain);
        }
        let trees = envoy::join(trees, &mut found);
        for tree in &trees {
            if by_name.contains_key(tree.domain()) {
                found.push(duplicate_domain(tree.domain(), tree.place));
            }
        }
        let trees = trees.into_iter().map(|tree| (tree.domain().into(), Arc::new(tree))).collect();
        found.sort();
        match found.has_errors() {
            true => Err(found),
            false => Ok(Rules(Arc::new(Set {
                domains,
                by_name,
                trees,
                trees_off: HashMap::new(),
                cases,
                found,
            }))),
        }
    }

    /// The same rules with lists, overrides, bans and modes from elsewhere, instead of those given before.
    pub fn with_data(&self, data: &Data) -> Result<Rules, DataError> {
        let (rules, mut wrong) = self.with_fitting_data(data);
        if wrong.is_empty() { Ok(rules) } else { Err(wrong.swap_remove(0)) }
    }

    /// The same, leaving out what does not fit these rules; that comes along.
    ///
    /// ```
    /// use tollgate::rules::{BanData, Data, Rules};
    /// let rules: Rules = "rules: [{ name: api, per: user, limit: 1/s }]".parse()?;
    /// let ban = |rule: &str| BanData { rule: rule.into(), ..BanData::default() };
    /// let data = Data { bans: vec![ban("gone"), ban("api")], ..Data::default() };
    /// let (_, left_out) = rules.with_fitting_data(&data);
    /// assert_eq!(left_out[0].element, "bans[0]");
    /// assert_eq!(left_out.len(), 1);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn with_fitting_data(&self, data: &Data) -> (Rules, Vec<DataError>) {
        let trees = self.0.trees.keys().map(|name| &**name).collect::<Vec<_>>();
        let compile::WithData { domains, trees_off, wrong } =
            compile::data(&self.0.domains, &trees, data);
        let rules = Rules(Arc::new(Set {
            domains,
            trees_off,
            by_name: self.0.by_name.clone(),
            trees: self.0.trees.clone(),
            cases: self.0.cases.clone(),
            found: self.0.found.clone(),
        }));
        (rules, wrong)
    }

    /// The texts they were read from.
    pub fn sources(&self) -> &[Source] {
        &self.0.found.sources
    }

    /// What is doubtful about them.
    pub fn warnings(&self) -> &Diagnostics {
        &self.0.found
    }

    /// The names of their domains.
    pub fn domain_names(&self) -> impl Iterator<Item = &str> {
        let trees = self.0.trees.keys().map(|name| &**name);
        self.0.domains.iter().map(|domain| &*domain.name).chain(trees)
    }

    /// The proxies whose word a domain's rules take for who is behind them (`trusted_proxies`); the
    /// only domain's, if none is named.
    pub fn trusted_proxies(&self, domain: Option<&str>) -> &[IpNet] {
        let request = Request { domain, ..Request::empty() };
        self.domain_of(&request).map_or(&[], |domain| &domain.compiled.trust.proxies)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.0.domains.iter().map(|domain| domain.compiled.rules.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many limits their rules name; one that depends on the plan counts once.
    pub fn limit_count(&self) -> usize {
        let rules = self.0.domains.iter().flat_map(|domain| &domain.compiled.rules);
        rules.map(|rule| rule.limits.len()).sum()
    }

    fn cases(&self) -> &[DomainCase] {
        &self.0.cases
    }

    fn domains(&self) -> &[Domain] {
        &self.0.domains
    }

    fn domain(&self, name: &str) -> Option<&Domain> {
        self.0.by_name.get(name).map(|index| &self.0.domains[*index])
    }

    /// The domain whose rules apply to a request: the one it names, or the only one.
    fn domain_of(&self, request: &Request<'_>) -> Option<&Domain> {
        match (request.domain, &self.0.domains[..]) {
            (Some(name), _) => self.domain(name),
            (None, [only]) if self.0.trees.is_empty() => Some(only),
            (None, _) => self.domain(compile::DEFAULT_DOMAIN),
        }
    }

    /// Whether a domain that was written for Envoy is switched off.
    fn is_tree_off(&self, tree: &Tree, now: Time) -> bool {
        let off = &self.0.trees_off;
        !off.is_empty() && off.get(tree.domain()).is_some_and(|set| set.now(now).is_some())
    }

    fn tree(&self, domain: &str) -> Option<&Tree> {
        self.0.trees.get(domain).map(|tree| &**tree)
    }

    /// The same for domains that were written for Envoy.
    fn tree_of(&self, request: &Request<'_>) -> Option<&Tree> {
        match request.domain {
            Some(name) => self.tree(name),
            None if self.0.domains.is_empty() && self.0.trees.len() == 1 => {
                self.0.trees.values().next().map(|tree| &**tree)
            }
            None => None,
        }
    }
}

fn duplicate_domain(name: &str, place: source::Place) -> Diagnostic {
    let message = format!("there is another file for the domain {name:?}");
    let help = "give each file a `domain` of its own";
    Diagnostic::error("duplicate-domain", place, message).help(help)
}

impl FromStr for Rules {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<Rules, Diagnostics> {
        Rules::read([Source::new("rules", text)])
    }
}
