//! Reads a `rate_limit` of a descriptor, and binds it to its counters.

use std::sync::Arc;

use super::Unit;
use super::fields::{EnvoyFields, MappingSchema, REPLACES, text};
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::source::{SourceSpan, Spanned};
use crate::read::suggest;
use crate::read::yaml::YamlNode;
use tollgate::limit::{AlgorithmName, InvalidLimit};
use tollgate::{CounterId, Limit};

/// A limit of a descriptor.
#[derive(Clone, Debug)]
pub(super) struct RateLimit {
    /// The span of the limit in its file.
    pub(super) span: SourceSpan,
    pub(super) name: Option<Arc<str>>,
    /// The names of limits that do not apply where this one does.
    pub(super) replaces: Vec<Arc<str>>,
    /// The limit; everything passes if it is none.
    pub(super) counted: Option<CountedLimit>,
}

/// A limit bound to its counters.
#[derive(Clone, Debug)]
pub(super) struct CountedLimit {
    pub(super) requests: u32,
    pub(super) unit: Unit,
    pub(super) multiplier: u32,
    /// The limit; 1 where nothing may pass, since no limit is 0 and the first hit is over either way.
    pub(super) limit: Limit,
    pub(super) counter: CounterId,
}

impl CountedLimit {
    /// Creates a limit as the original counts: windows of the epoch, in which refusals count too.
    pub(super) fn plain(
        domain: &str,
        requests: u32,
        unit: Unit,
    ) -> Result<CountedLimit, InvalidLimit> {
        let limit =
            Limit::new(requests.max(1).into(), unit.span().into())?.fixed()?.count_denied()?;
        let counter = counter_id(domain, &limit, unit, 1, 0);
        Ok(CountedLimit { requests, unit, multiplier: 1, limit, counter })
    }

    /// Returns a limit on the same counters that is never exceeded, which tells how much is spent.
    pub(super) fn widest(&self) -> Option<Limit> {
        let window = self.unit.span().times(self.multiplier.into());
        Limit::new(u32::MAX.into(), window.into()).ok()?.fixed().ok()?.count_denied().ok()
    }
}

/// Returns the id of the counters of a limit.
///
/// The id does not depend on the number of requests, so that counters survive an edit. It depends on the
/// length of the window and on the algorithm, since their counts cannot be compared. `nth` separates
/// limits of one descriptor that are equal in all this.
fn counter_id(domain: &str, limit: &Limit, unit: Unit, multiplier: u32, nth: usize) -> CounterId {
    let length = unit.span().as_nanos() as u128 * u128::from(multiplier) / 1_000_000_000;
    let algorithm = limit.summary().algorithm;
    CounterId::from_parts(&[
        "envoy",
        domain,
        algorithm.as_str(),
        &length.to_string(),
        &nth.to_string(),
    ])
}

/// A limit as it is written, to be compiled once all limits of its descriptor are known.
pub(super) struct RateLimitDefinition<'n> {
    pub(super) span: SourceSpan,
    pub(super) name: Option<Arc<str>>,
    pub(super) replaces: Vec<Spanned<Arc<str>>>,
    amount: Option<RateAmount<'n>>,
}

/// The rate of a limit as it is written.
struct RateAmount<'n> {
    requests: u32,
    unit: Unit,
    multiplier: u32,
    /// The options that follow a rate in the grammar of limits, and their span.
    algorithm: Option<(&'n str, SourceSpan)>,
    burst: Option<u32>,
}

impl<'n> RateLimitDefinition<'n> {
    pub(super) fn read(
        node: &'n YamlNode<'n>,
        kind: &MappingSchema,
        diagnostics: &mut Diagnostics,
    ) -> Option<RateLimitDefinition<'n>> {
        let fields = EnvoyFields::read(node, kind, diagnostics)?;
        let name = fields.text("name", diagnostics).filter(|name| !name.is_empty()).map(Arc::from);
        let replaces = replaces(&fields, name.as_ref(), diagnostics);
        let amount = match fields.flag("unlimited", diagnostics) {
            true => {
                no_unit(&fields, diagnostics);
                None
            }
            false => Some(amount(&fields, diagnostics)?),
        };
        Some(RateLimitDefinition { span: fields.span, name, replaces, amount })
    }

    /// Whether it uses more than the original has: then it decides like any limit of rules, and
    /// refusals cost nothing.
    pub(super) fn is_extended(&self) -> bool {
        self.amount.as_ref().is_some_and(|amount| {
            amount.requests > 0 && (amount.algorithm.is_some() || amount.burst.is_some())
        })
    }

    /// Compiles the limit. Where one limit of a descriptor is extended, all of them are.
    pub(super) fn compile(
        self,
        domain: &str,
        extended: bool,
        others: &[RateLimit],
        diagnostics: &mut Diagnostics,
    ) -> Option<RateLimit> {
        let replaces = self.replaces.into_iter().map(|name| name.value).collect();
        let counted = match self.amount {
            None => None,
            Some(amount) => {
                Some(amount.compile(domain, extended, others, self.span, diagnostics)?)
            }
        };
        Some(RateLimit { span: self.span, name: self.name, replaces, counted })
    }
}

impl RateAmount<'_> {
    fn compile(
        self,
        domain: &str,
        extended: bool,
        others: &[RateLimit],
        span: SourceSpan,
        diagnostics: &mut Diagnostics,
    ) -> Option<CountedLimit> {
        let RateAmount { requests, unit, multiplier, .. } = self;
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
                let span = self.algorithm.map_or(span, |(_, span)| span);
                diagnostics.push(not_a_limit(error, options, &rate, span));
                return None;
            }
        };
        let number = |nth| counter_id(domain, &limit, unit, multiplier, nth);
        let is_taken = |number: &CounterId| {
            others
                .iter()
                .filter_map(|other| other.counted.as_ref())
                .any(|other| other.counter == *number)
        };
        let counter = (0..=others.len()).map(number).find(|number| !is_taken(number))?;
        Some(CountedLimit { requests, unit, multiplier, limit, counter })
    }
}

fn not_a_limit(
    error: tollgate::limit::ParseLimitError,
    options: &str,
    rate: &str,
    span: SourceSpan,
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
    let diagnostics = Diagnostic::error("bad-limit", span, error.message);
    match suggest::closest(options, names) {
        Some(meant) if error.at > rate.len() && meant != options => diagnostics.fix(meant),
        _ => diagnostics.help(format!("an algorithm is one of {}", suggest::listed(names))),
    }
}

fn amount<'n>(fields: &EnvoyFields<'n>, diagnostics: &mut Diagnostics) -> Option<RateAmount<'n>> {
    let unit = unit(fields, diagnostics);
    let requests = match (fields.get("requests"), fields.get("requests_per_unit")) {
        (Some(_), Some(node)) => {
            let message = "`requests` and `requests_per_unit` are the same: keep one";
            diagnostics.push(Diagnostic::error("duplicate-key", node.span, message));
            return None;
        }
        (Some(_), None) => fields.number("requests", diagnostics)?,
        _ => fields.number("requests_per_unit", diagnostics)?,
    };
    if requests.is_none() {
        let message = "without `requests_per_unit` nothing passes";
        let warning = Diagnostic::warning("no-requests", fields.span, message);
        diagnostics.push(warning.help("write `requests_per_unit: 0` if that is meant"));
    }
    let multiplier = fields.number("unit_multiplier", diagnostics)?.unwrap_or(1);
    if let (0, Some(node)) = (multiplier, fields.get("unit_multiplier")) {
        let message = "`unit_multiplier` is at least 1";
        diagnostics.push(Diagnostic::error("bad-number", node.span, message));
        return None;
    }
    let algorithm = match fields.get("algorithm") {
        Some(node) => Some((text(node, "algorithm", diagnostics)?, node.span)),
        None => None,
    };
    let burst = fields.number("burst", diagnostics)?;
    Some(RateAmount { requests: requests.unwrap_or(0), unit: unit?, multiplier, algorithm, burst })
}

fn unit(fields: &EnvoyFields<'_>, diagnostics: &mut Diagnostics) -> Option<Unit> {
    let Some(node) = fields.get("unit") else {
        let message = "this rate limit has no `unit`";
        let names = suggest::listed(Unit::names());
        let error = Diagnostic::error("missing-field", fields.span, message);
        diagnostics.push(error.help(format!("add `unit`: one of {names}")));
        return None;
    };
    let name = text(node, "unit", diagnostics)?;
    if let Some(unit) = Unit::named(name) {
        return Some(unit);
    }
    let error = Diagnostic::error("bad-unit", node.span, format!("{name:?} is no unit of time"));
    let meant = match name {
        "s" | "sec" => Some("second"),
        "m" | "min" => Some("minute"),
        "h" => Some("hour"),
        "d" => Some("day"),
        _ => suggest::closest(name, Unit::names()),
    };
    diagnostics.push(match meant {
        Some(meant) => error.fix(meant),
        None => error.help(format!("use one of {}", suggest::listed(Unit::names()))),
    });
    None
}

/// Reports an unlimited limit that has a unit or another part of a rate.
fn no_unit(fields: &EnvoyFields<'_>, diagnostics: &mut Diagnostics) {
    for name in ["unit", "algorithm", "unit_multiplier", "burst"] {
        if let Some(node) = fields.get(name).filter(|node| node.text() != Some("")) {
            let message = format!("what is unlimited has no `{name}`");
            let error = Diagnostic::error("unlimited-with-unit", node.span, message);
            diagnostics.push(error.help(format!("leave out `{name}`, or `unlimited`")));
        }
    }
}

fn replaces(
    fields: &EnvoyFields<'_>,
    own: Option<&Arc<str>>,
    diagnostics: &mut Diagnostics,
) -> Vec<Spanned<Arc<str>>> {
    let mut names = Vec::new();
    for node in fields.list("replaces", diagnostics) {
        let Some(entry) = EnvoyFields::read(node, &REPLACES, diagnostics) else { continue };
        let Some(name) = entry.text("name", diagnostics) else { continue };
        let span = entry.get("name").map_or(node.span, |node| node.span);
        let error = |message: &str| Diagnostic::error("bad-replaces", span, message);
        match name {
            "" => diagnostics.push(error("an entry of `replaces` has a `name`")),
            name if own.is_some_and(|own| **own == *name) => {
                diagnostics.push(error("a limit cannot replace itself"));
            }
            name => names.push(Spanned::new(Arc::from(name), span)),
        }
    }
    names
}
