//! The names of descriptors in statistics, which `detailed_metric` and `value_to_metric` change.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use super::Descriptor;
use super::descriptor_tree::{DescriptorLevel, DescriptorMatch, DescriptorNode, DescriptorTree};

/// Separates the levels of a name; no level contains it.
const LEVEL_SEPARATOR: char = '\u{1f}';
/// The last level of the name under which limits of requests are counted.
const REQUEST_LIMIT: &str = "request_limit";

/// The name of a descriptor in statistics: its domain, then a level for each of its entries.
///
/// The name is that of Envoy's own service: `:` and `|` become `_`, and so do the dots of an IPv4
/// address. Control characters become `_` too, since they would end a line of statsd.
///
/// ```
/// use tollgate_rules::{Source, envoy::{Descriptor, Domains}};
/// let file = "{ domain: d, descriptors: [{ key: ip, value: 10.0.0.1, rate_limit: { unit: day } }] }";
/// let domains = Domains::read([Source::new("d.yaml", file)])?;
/// let name = domains.get("d").unwrap().metric_name(&Descriptor::new(&[("ip", "10.0.0.1")])).unwrap();
/// assert_eq!(name.to_string(), "d.ip_10_0_0_1");
/// assert_eq!(name.levels().collect::<Vec<_>>(), ["d", "ip_10_0_0_1"]);
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetricName(Box<str>);

impl MetricName {
    /// Returns the domain, then the entries.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.split(LEVEL_SEPARATOR)
    }

    /// Returns a text that no other name has, to look it up by.
    pub fn as_key(&self) -> &str {
        &self.0
    }

    /// Creates the name of the limits that requests to a domain have along.
    pub(super) fn of_request_limits(domain: &str) -> MetricName {
        let mut name = MetricNameWriter::new(domain);
        name.level(REQUEST_LIMIT, None);
        name.finish()
    }
}

/// Writes the name as Envoy's own service does, with dots between the levels.
impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, level) in self.levels().enumerate() {
            f.write_str(if index == 0 { "" } else { "." })?;
            f.write_str(level)?;
        }
        Ok(())
    }
}

/// Writes a name level by level.
#[derive(Clone)]
pub(super) struct MetricNameWriter(String);

impl MetricNameWriter {
    pub(super) fn new(domain: &str) -> MetricNameWriter {
        let mut name = MetricNameWriter(String::new());
        name.push(domain);
        name
    }

    /// Adds a level: a key, and a value after `_` if there is one.
    pub(super) fn level(&mut self, key: &str, value: Option<&str>) {
        self.0.push(LEVEL_SEPARATOR);
        match value {
            Some(value) => self.push(&format!("{key}_{value}")),
            None => self.push(key),
        }
    }

    /// Adds a text without the characters that have a meaning in statsd.
    fn push(&mut self, text: &str) {
        static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
            let address = r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}";
            Regex::new(address).expect("the expression is valid")
        });
        let text = match text.bytes().filter(|byte| *byte == b'.').count() {
            0..3 => Cow::Borrowed(text),
            _ => {
                ADDRESS.replace_all(text, |found: &regex::Captures<'_>| found[0].replace('.', "_"))
            }
        };
        let is_safe = |character: char| !matches!(character, ':' | '|') && !character.is_control();
        self.0.extend(text.chars().map(|one| if is_safe(one) { one } else { '_' }));
    }

    pub(super) fn finish(self) -> MetricName {
        MetricName(self.0.into())
    }
}

/// The name of a descriptor of the file in statistics.
#[derive(Clone, Debug)]
pub(super) struct NodeMetric {
    /// The number among the descriptors of the domain that have a limit.
    pub(super) number: u32,
    /// The name as the file writes it, without values of requests.
    pub(super) name: MetricName,
    /// Whether statistics are counted by values of requests.
    pub(super) is_by_value: bool,
}

impl DescriptorTree {
    /// Names and numbers the descriptors with a limit.
    pub(super) fn name_metrics(&mut self) {
        let path = NodePath { name: MetricNameWriter::new(&self.domain), is_by_value: false };
        self.request_limits = Some(MetricName::of_request_limits(&self.domain));
        self.limited = 0;
        name_level(&mut self.root, &path, &mut self.limited);
    }

    /// Returns the name of a descriptor in statistics; none if it has no limit.
    ///
    /// Values that a client chooses are in it only where the file requests them, and never those of
    /// secrets. All limits that requests have along share one name.
    ///
    /// ```
    /// use tollgate_rules::{Source, envoy::{Descriptor, Domains}};
    /// let file = "
    /// domain: web
    /// descriptors:
    ///   - key: route
    ///     value_to_metric: true
    ///     descriptors:
    ///       - key: user
    ///         rate_limit: { unit: minute, requests_per_unit: 60 }
    /// ";
    /// let domains = Domains::read([Source::new("web.yaml", file)])?;
    /// let name = domains.get("web").unwrap()
    ///     .metric_name(&Descriptor::new(&[("route", "api"), ("user", "ann")]));
    /// assert_eq!(name.unwrap().to_string(), "web.route_api.user");
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn metric_name(&self, descriptor: &Descriptor<'_>) -> Option<MetricName> {
        if descriptor.limit.is_some() {
            return Some(MetricName::of_request_limits(&self.domain));
        }
        let metric = self.walk(descriptor.entries, |_, _, _| {})?.metric.as_ref()?;
        match metric.is_by_value {
            true => self.metric_name_by_value(descriptor.entries),
            false => Some(metric.name.clone()),
        }
    }

    /// Returns the name of a descriptor with the values that the file requests.
    pub(super) fn metric_name_by_value(&self, entries: &[(&str, &str)]) -> Option<MetricName> {
        let mut usual = MetricNameWriter::new(&self.domain);
        let mut detailed = usual.clone();
        let leaf = self.walk(entries, |node, matched, (key, value)| {
            let pattern = pattern_of(node, key);
            let pattern = Some(&*pattern).filter(|pattern| !pattern.is_empty());
            let chosen = Some(value).filter(|value| !value.is_empty() && !node.secret);
            let written = match matched {
                DescriptorMatch::Exact => Some(value).filter(|value| !value.is_empty()),
                _ if !node.shared && node.value_to_metric => chosen,
                DescriptorMatch::Wildcard => pattern,
                DescriptorMatch::Bare => None,
            };
            usual.level(key, written);
            // The original writes `key_` where the value is empty.
            let by_value = if node.secret { written } else { Some(value) };
            detailed.level(key, if node.shared { pattern } else { by_value });
        })?;
        Some(if leaf.detailed_metric { detailed.finish() } else { usual.finish() })
    }
}

/// The levels above a descriptor.
struct NodePath {
    name: MetricNameWriter,
    /// Whether a level has the values of requests in its name.
    is_by_value: bool,
}

/// Names the descriptors of a level and those below it; `count` is the next number.
fn name_level(level: &mut DescriptorLevel, above: &NodePath, count: &mut u32) {
    for node in level.nodes_mut() {
        let mut name = above.name.clone();
        name.level(&node.key, Some(&*node.value).filter(|value| !value.is_empty()));
        let has_any_value = node.value.is_empty() || node.is_wildcard();
        let is_by_value =
            above.is_by_value || node.value_to_metric && has_any_value && !node.shared;
        if node.limits.iter().any(|limit| limit.counted.is_some()) {
            let is_by_value = is_by_value || node.detailed_metric;
            let name = name.clone().finish();
            node.metric = Some(Box::new(NodeMetric { number: *count, name, is_by_value }));
            *count += 1;
        }
        name_level(&mut node.children, &NodePath { name, is_by_value }, count);
    }
}

/// Returns the value as it is written in the file, relative to a request's key.
fn pattern_of(node: &DescriptorNode, key: &str) -> String {
    let whole = match &*node.value {
        "" => node.key.to_string(),
        value => format!("{}_{value}", node.key),
    };
    let value = whole.strip_prefix(key).and_then(|rest| rest.strip_prefix('_'));
    value.map(str::to_owned).unwrap_or(whole)
}
