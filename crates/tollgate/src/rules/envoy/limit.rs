//! One `rate_limit` of a descriptor: read, checked, and bound to the bucket of its counters.

use std::sync::Arc;

use super::Unit;
use super::fields::{Fields, Kind, REPLACES, text};
use crate::limit::{AlgorithmName, InvalidLimit};
use crate::rules::diagnostic::{Diagnostic, Diagnostics};
use crate::rules::source::{At, Place};
use crate::rules::suggest;
use crate::rules::yaml::Node;
use crate::{Bucket, Limit};

/// A limit of a descriptor.
#[derive(Clone, Debug)]
pub(super) struct RateLimit {
    pub(super) name: Option<Arc<str>>,
    /// The names of limits that do not apply where this one does.
    pub(super) replaces: Vec<Arc<str>>,
    /// How much; without it everything passes.
    pub(super) counted: Option<Counted>,
}

/// How much may pass.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) requests: u32,
    pub(super) unit: Unit,
    pub(super) multiplier: u32,
    /// Of one if nothing may pass: no limit is 0, and the first hit is over either way.
    pub(super) limit: Limit,
    pub(super) bucket: Bucket,
}

impl Counted {
    /// A limit as the original counts: windows of the epoch, in which refusals count too.
    pub(super) fn plain(domain: &str, requests: u32, unit: Unit) -> Result<Counted, InvalidLimit> {
        let limit =
            Limit::new(requests.max(1).into(), unit.span().into())?.fixed()?.count_denied()?;
        let bucket = bucket(domain, &limit, unit, 1, 0);
        Ok(Counted { requests, unit, multiplier: 1, limit, bucket })
    }
}

/// Where the counters of a limit are kept. Not a matter of how much it allows, so that they outlast
/// an edit; but a count of minutes says nothing about hours, and a window's nothing about a token
/// bucket. `nth` tells the limits of one descriptor apart that have all this in common.
fn bucket(domain: &str, limit: &Limit, unit: Unit, multiplier: u32, nth: usize) -> Bucket {
    let length = unit.span().as_nanos() as u128 * u128::from(multiplier) / 1_000_000_000;
    let algorithm = limit.quota().algorithm;
    Bucket::of(&["envoy", domain, algorithm.as_str(), &length.to_string(), &nth.to_string()])
}

/// A limit as it was written, to be compiled once all limits of its descriptor are known.
pub(super) struct Written<'n> {
    pub(super) place: Place,
    pub(super) name: Option<Arc<str>>,
    pub(super) replaces: Vec<At<Arc<str>>>,
    amount: Option<Amount<'n>>,
}

struct Amount<'n> {
    requests: u32,
    unit: Unit,
    multiplier: u32,
    /// What the grammar of limits says after a rate, and where it was written.
    algorithm: Option<(&'n str, Place)>,
    burst: Option<u32>,
}

impl<'n> Written<'n> {
    pub(super) fn read(
        node: &'n Node<'n>,
        kind: &Kind,
        found: &mut Diagnostics,
    ) -> Option<Written<'n>> {
        let fields = Fields::read(node, kind, found)?;
        let name = fields.text("name", found).filter(|name| !name.is_empty()).map(Arc::from);
        let replaces = replaces(&fields, name.as_ref(), found);
        let amount = match fields.flag("unlimited", found) {
            true => {
                no_unit(&fields, found);
                None
            }
            false => Some(amount(&fields, found)?),
        };
        Some(Written { place: fields.place, name, replaces, amount })
    }

    /// Whether it asks for more than the original can do: then it decides like any limit of
    /// ours, and refusals cost nothing.
    pub(super) fn is_extended(&self) -> bool {
        self.amount.as_ref().is_some_and(|amount| {
            amount.requests > 0 && (amount.algorithm.is_some() || amount.burst.is_some())
        })
    }

    /// Compiles it. Where one limit of a descriptor is extended, all of them are.
    pub(super) fn compile(
        self,
        domain: &str,
        extended: bool,
        others: &[RateLimit],
        found: &mut Diagnostics,
    ) -> Option<RateLimit> {
        let replaces = self.replaces.into_iter().map(|name| name.value).collect();
        let counted = match self.amount {
            None => None,
            Some(amount) => Some(amount.compile(domain, extended, others, self.place, found)?),
        };
        Some(RateLimit { name: self.name, replaces, counted })
    }
}

impl Amount<'_> {
    fn compile(
        self,
        domain: &str,
        extended: bool,
        others: &[RateLimit],
        place: Place,
        found: &mut Diagnostics,
    ) -> Option<Counted> {
        let Amount { requests, unit, multiplier, .. } = self;
        let options = match (self.algorithm, extended) {
            _ if requests == 0 => "fixed count_denied",
            (Some((words, _)), _) => words,
            (None, _) if self.burst.is_some() => "token_bucket",
            (None, true) => "fixed",
            (None, false) => "fixed count_denied",
        };
        let burst = self.burst.filter(|_| requests > 0);
        let burst = burst.map_or(String::new(), |burst| format!(" burst {burst}"));
        let rate = format!("{}/{multiplier}{}", requests.max(1), unit.in_limits());
        let limit: Limit = match format!("{rate} {options}{burst}").parse() {
            Ok(limit) => limit,
            Err(error) => {
                let place = self.algorithm.map_or(place, |(_, place)| place);
                found.push(not_a_limit(error, options, &rate, place));
                return None;
            }
        };
        let number = |nth| bucket(domain, &limit, unit, multiplier, nth);
        let is_taken = |number: &Bucket| {
            others
                .iter()
                .filter_map(|other| other.counted.as_ref())
                .any(|other| other.bucket == *number)
        };
        let bucket = (0..=others.len()).map(number).find(|number| !is_taken(number))?;
        Some(Counted { requests, unit, multiplier, limit, bucket })
    }
}

fn not_a_limit(
    error: crate::limit::ParseLimitError,
    options: &str,
    rate: &str,
    place: Place,
) -> Diagnostic {
    let algorithms = [
        AlgorithmName::TokenBucket,
        AlgorithmName::LeakyBucket,
        AlgorithmName::Gcra,
        AlgorithmName::FixedWindow,
        AlgorithmName::SlidingWindow,
        AlgorithmName::SlidingLog,
    ];
    let names = algorithms.map(AlgorithmName::as_str);
    let found = Diagnostic::error("bad-limit", place, error.message);
    match suggest::closest(options, names) {
        Some(meant) if error.at > rate.len() && meant != options => found.fix(meant),
        _ => found.help(format!("an algorithm is one of {}", suggest::listed(names))),
    }
}

fn amount<'n>(fields: &Fields<'n>, found: &mut Diagnostics) -> Option<Amount<'n>> {
    let unit = unit(fields, found);
    let requests = match (fields.get("requests"), fields.get("requests_per_unit")) {
        (Some(_), Some(node)) => {
            let message = "`requests` and `requests_per_unit` are the same: keep one";
            found.push(Diagnostic::error("duplicate-key", node.place, message));
            return None;
        }
        (Some(_), None) => fields.number("requests", found)?,
        _ => fields.number("requests_per_unit", found)?,
    };
    if requests.is_none() {
        let message = "without `requests_per_unit` nothing passes";
        let warning = Diagnostic::warning("no-requests", fields.place, message);
        found.push(warning.help("write `requests_per_unit: 0` if that is meant"));
    }
    let multiplier = fields.number("unit_multiplier", found)?.unwrap_or(1);
    if let (0, Some(node)) = (multiplier, fields.get("unit_multiplier")) {
        let message = "`unit_multiplier` is at least 1";
        found.push(Diagnostic::error("bad-number", node.place, message));
        return None;
    }
    let algorithm = match fields.get("algorithm") {
        Some(node) => Some((text(node, "algorithm", found)?, node.place)),
        None => None,
    };
    let burst = fields.number("burst", found)?;
    Some(Amount { requests: requests.unwrap_or(0), unit: unit?, multiplier, algorithm, burst })
}

fn unit(fields: &Fields<'_>, found: &mut Diagnostics) -> Option<Unit> {
    let Some(node) = fields.get("unit") else {
        let message = "this rate limit has no `unit`";
        let names = suggest::listed(Unit::names());
        let error = Diagnostic::error("missing-field", fields.place, message);
        found.push(error.help(format!("add `unit`: one of {names}")));
        return None;
    };
    let name = text(node, "unit", found)?;
    if let Some(unit) = Unit::named(name) {
        return Some(unit);
    }
    let error = Diagnostic::error("bad-unit", node.place, format!("{name:?} is no unit of time"));
    let meant = match name {
        "s" | "sec" => Some("second"),
        "m" | "min" => Some("minute"),
        "h" => Some("hour"),
        "d" => Some("day"),
        _ => suggest::closest(name, Unit::names()),
    };
    found.push(match meant {
        Some(meant) => error.fix(meant),
        None => error.help(format!("use one of {}", suggest::listed(Unit::names()))),
    });
    None
}

/// What is unlimited has no unit, nor anything else that says how much.
fn no_unit(fields: &Fields<'_>, found: &mut Diagnostics) {
    for name in ["unit", "algorithm", "unit_multiplier", "burst"] {
        if let Some(node) = fields.get(name).filter(|node| node.text() != Some("")) {
            let message = format!("what is unlimited has no `{name}`");
            let error = Diagnostic::error("unlimited-with-unit", node.place, message);
            found.push(error.help(format!("leave out `{name}`, or `unlimited`")));
        }
    }
}

fn replaces(
    fields: &Fields<'_>,
    own: Option<&Arc<str>>,
    found: &mut Diagnostics,
) -> Vec<At<Arc<str>>> {
    let mut names = Vec::new();
    for node in fields.list("replaces", found) {
        let Some(entry) = Fields::read(node, &REPLACES, found) else { continue };
        let Some(name) = entry.text("name", found) else { continue };
        let place = entry.get("name").map_or(node.place, |node| node.place);
        let error = |message: &str| Diagnostic::error("bad-replaces", place, message);
        match name {
            "" => found.push(error("an entry of `replaces` has a `name`")),
            name if own.is_some_and(|own| **own == *name) => {
                found.push(error("a limit cannot replace itself"));
            }
            name => names.push(At::new(Arc::from(name), place)),
        }
    }
    names
}
