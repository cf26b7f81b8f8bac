//! The tree of descriptors by key and value.
//!
//! At each level an entry is looked up as `key_value`, then among the wildcards in the order of the
//! file, then as `key` alone. The first match is taken, without backtracking.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::Metadata;
use super::metric_name::{MetricName, NodeMetric};
use super::rate_limit::RateLimit;
use super::replaced_names::ReplacedNames;
use crate::compile::glob::{self, Globs};
use crate::read::source::SourceSpan;

/// The descriptors of one domain.
///
/// ```
/// use tollgate_rules::{Source, envoy::Domains};
/// let file = "{ domain: mongo, descriptors: [{ key: database }] }";
/// let domains = Domains::read([Source::new("mongo.yaml", file)])?;
/// assert_eq!(domains.get("mongo").unwrap().domain(), "mongo");
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct DescriptorTree {
    pub(super) domain: Box<str>,
    /// The span of the domain's name.
    pub(crate) span: SourceSpan,
    pub(super) separator: Separator,
    /// Whether it is in the short form, of which several files make one domain.
    pub(super) is_short: bool,
    pub(super) root: DescriptorLevel,
    /// The names of its limits, and those of the limits they replace.
    pub(super) names: ReplacedNames,
    /// The number of this tree among all trees that were read in this process.
    pub(super) number: u64,
    /// The number of descriptors with a limit.
    pub(super) limited: u32,
    /// The name of the limits of requests in statistics, once the tree is complete.
    pub(super) request_limits: Option<MetricName>,
}

/// The separator of a key and a value that are looked up as one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// `_`, as in the original: the key `a_b` finds what is configured for `a` and `b`.
    Underscore,
    /// A byte that no text has, so that a key only matches a key.
    Strict,
}

impl Separator {
    const fn byte(self) -> u8 {
        match self {
            Separator::Underscore => b'_',
            Separator::Strict => 0xff,
        }
    }
}

/// The descriptors of one list.
#[derive(Clone, Debug, Default)]
pub(super) struct DescriptorLevel {
    nodes: Vec<DescriptorNode>,
    exact: HashMap<Box<[u8]>, u32, RandomState>,
    /// The wildcards by `key_value`, whatever the separator.
    wildcards: Globs<u32>,
}

/// One descriptor.
#[derive(Clone, Debug)]
pub(super) struct DescriptorNode {
    pub(super) key: Box<str>,
    pub(super) value: Box<str>,
    pub(super) span: SourceSpan,
    pub(super) limits: Vec<RateLimit>,
    pub(super) shadow: bool,
    pub(super) quota: bool,
    /// Whether limits are decided like those of rules: all or none, refusals cost nothing.
    pub(super) extended: bool,
    /// Whether all values that match share a counter.
    pub(super) shared: bool,
    /// Whether its values are secrets, which keys contain only as a hash.
    pub(super) secret: bool,
    pub(super) detailed_metric: bool,
    pub(super) value_to_metric: bool,
    pub(super) metadata: Option<Arc<Metadata>>,
    /// The name in statistics, if it has a limit and the tree is complete.
    pub(super) metric: Option<Box<NodeMetric>>,
    pub(super) children: DescriptorLevel,
}

/// The way in which a descriptor matches an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescriptorMatch {
    Exact,
    Wildcard,
    /// The key matches, and the descriptor has no value.
    Bare,
}

type JoinedText = SmallVec<[u8; 128]>;

impl DescriptorTree {
    /// Returns the name of the domain.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the descriptor at exactly the depth of `entries`; `pass` is called with each on the way.
    pub(super) fn walk<'t>(
        &'t self,
        entries: &[(&str, &str)],
        mut pass: impl FnMut(&'t DescriptorNode, DescriptorMatch, (&str, &str)),
    ) -> Option<&'t DescriptorNode> {
        let mut level = &self.root;
        let mut last = None;
        for (key, value) in entries {
            let (node, matched) = level.find(self.separator, key, value)?;
            pass(node, matched, (key, value));
            level = &node.children;
            last = Some(node);
        }
        last
    }
}

impl DescriptorLevel {
    /// Returns the descriptors in the order of the file.
    pub(super) fn nodes(&self) -> &[DescriptorNode] {
        &self.nodes
    }

    pub(super) fn nodes_mut(&mut self) -> &mut [DescriptorNode] {
        &mut self.nodes
    }

    /// Adds a descriptor, or returns the span of the one with the same key and value.
    pub(super) fn add(
        &mut self,
        node: DescriptorNode,
        separator: Separator,
    ) -> Result<(), SourceSpan> {
        let text = match &*node.value {
            "" => node.key.as_bytes().to_vec(),
            value => [node.key.as_bytes(), &[separator.byte()], value.as_bytes()].concat(),
        };
        if let Some(earlier) = self.exact.get(text.as_slice()) {
            return Err(self.nodes[*earlier as usize].span);
        }
        let number = self.nodes.len() as u32;
        let pattern = match (separator, &*node.value) {
            // The pattern is one of keys, with any value.
            (Separator::Strict, "") => format!("{}_*", node.key),
            (_, "") => node.key.to_string(),
            (_, value) => format!("{}_{value}", node.key),
        };
        if node.is_wildcard() {
            self.wildcards.insert(&pattern, number);
        }
        self.exact.insert(text.into(), number);
        self.nodes.push(node);
        Ok(())
    }

    /// Adds the descriptors of another list, and returns the spans of duplicates.
    pub(super) fn extend(
        &mut self,
        other: DescriptorLevel,
        separator: Separator,
    ) -> Vec<(SourceSpan, SourceSpan)> {
        let nodes = other.nodes.into_iter();
        let added = nodes.map(|node| (node.span, self.add(node, separator)));
        added.filter_map(|(span, added)| Some((span, added.err()?))).collect()
    }

    fn find(
        &self,
        separator: Separator,
        key: &str,
        value: &str,
    ) -> Option<(&DescriptorNode, DescriptorMatch)> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut text = JoinedText::from_slice(key.as_bytes());
        text.push(separator.byte());
        text.extend_from_slice(value.as_bytes());
        let exact = |text: &[u8]| self.exact.get(text).copied();
        let (number, matched) = exact(&text)
            .map(|number| (number, DescriptorMatch::Exact))
            .or_else(|| {
                Some((
                    self.first_wildcard(separator, &mut text, key, value)?,
                    DescriptorMatch::Wildcard,
                ))
            })
            .or_else(|| Some((exact(key.as_bytes())?, DescriptorMatch::Bare)))?;
        Some((&self.nodes[number as usize], matched))
    }

    /// Returns the first wildcard of the file that matches; `text` is the key and the value, joined.
    fn first_wildcard(
        &self,
        separator: Separator,
        text: &mut JoinedText,
        key: &str,
        value: &str,
    ) -> Option<u32> {
        if self.wildcards.is_empty() {
            return None;
        }
        text[key.len()] = b'_';
        let text = std::str::from_utf8(text).ok()?;
        let fits = |number: &u32| {
            separator == Separator::Underscore || self.nodes[*number as usize].matches(key, value)
        };
        self.wildcards.find(text).copied().filter(fits).min()
    }
}

impl DescriptorNode {
    /// Whether the key or the value has a `*`.
    pub(super) fn is_wildcard(&self) -> bool {
        glob::is_pattern(&self.key) || glob::is_pattern(&self.value)
    }

    /// Whether key and value match, each on its own.
    fn matches(&self, key: &str, value: &str) -> bool {
        glob::matches(&self.key, key)
            && (self.value.is_empty() || glob::matches(&self.value, value))
    }
}
