//! Descriptors by key and value, level by level.
//!
//! At each level an entry is looked up as `key_value`, then among the wildcards in the order of
//! the file, then as `key` alone; what was found first is gone into, and there is no way back.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::Metadata;
use super::limit::RateLimit;
use crate::rules::glob::{self, Globs};
use crate::rules::source::Place;

/// One domain's descriptors, ready to be asked.
///
/// ```
/// use tollgate::rules::{Source, envoy::Domains};
/// let file = "{ domain: mongo, descriptors: [{ key: database }] }";
/// let domains = Domains::read([Source::new("mongo.yaml", file)])?;
/// assert_eq!(domains.get("mongo").unwrap().domain(), "mongo");
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tree {
    pub(super) domain: Box<str>,
    /// Where the domain is named.
    pub(crate) place: Place,
    pub(super) joint: Joint,
    /// Whether it was written in the short form, of which several make one domain.
    pub(super) is_short: bool,
    pub(super) root: Level,
}

/// What stands between a key and a value that are looked up as one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    /// `_`, as in the original: the key `a_b` finds what is configured for `a` and `b`.
    Underscore,
    /// A byte that no text has, so that a key only ever meets a key.
    Strict,
}

impl Joint {
    const fn byte(self) -> u8 {
        match self {
            Joint::Underscore => b'_',
            Joint::Strict => 0xff,
        }
    }
}

/// The descriptors of one list.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    nodes: Vec<Node>,
    exact: HashMap<Box<[u8]>, u32, RandomState>,
    /// By `key_value`, whatever the joint.
    wildcards: Globs<u32>,
}

/// One descriptor.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) key: Box<str>,
    pub(super) value: Box<str>,
    pub(super) place: Place,
    pub(super) limits: Vec<RateLimit>,
    pub(super) shadow: bool,
    pub(super) quota: bool,
    /// Whether limits are decided as ours are: all or none, refusals cost nothing.
    pub(super) extended: bool,
    /// All values that match count as one.
    pub(super) shared: bool,
    pub(super) detailed_metric: bool,
    pub(super) value_to_metric: bool,
    pub(super) metadata: Option<Arc<Metadata>>,
    pub(super) children: Level,
}

/// How a descriptor was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Exact,
    Wildcard,
    /// By its key alone.
    Bare,
}

type Text = SmallVec<[u8; 128]>;

impl Tree {
    /// The domain these descriptors belong to.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The descriptor at exactly the depth of `entries`; `pass` is shown each on the way.
    pub(super) fn walk<'t>(
        &'t self,
        entries: &[(&str, &str)],
        mut pass: impl FnMut(&'t Node, How, (&str, &str)),
    ) -> Option<&'t Node> {
        let mut level = &self.root;
        let mut last = None;
        for (key, value) in entries {
            let (node, how) = level.find(self.joint, key, value)?;
            pass(node, how, (key, value));
            level = &node.children;
            last = Some(node);
        }
        last
    }
}

impl Level {
    /// Adds a descriptor, unless there is one of that key and value: then where that one is.
    pub(super) fn add(&mut self, node: Node, joint: Joint) -> Result<(), Place> {
        let text = match &*node.value {
            "" => node.key.as_bytes().to_vec(),
            value => [node.key.as_bytes(), &[joint.byte()], value.as_bytes()].concat(),
        };
        if let Some(earlier) = self.exact.get(text.as_slice()) {
            return Err(self.nodes[*earlier as usize].place);
        }
        let number = self.nodes.len() as u32;
        let pattern = match (joint, &*node.value) {
            // A pattern of keys, whatever the value.
            (Joint::Strict, "") => format!("{}_*", node.key),
            (_, "") => node.key.to_string(),
            (_, value) => format!("{}_{value}", node.key),
        };
        if glob::is_pattern(&node.key) || glob::is_pattern(&node.value) {
            self.wildcards.insert(&pattern, number);
        }
        self.exact.insert(text.into(), number);
        self.nodes.push(node);
        Ok(())
    }

    /// Adds the descriptors of another list; places of those that are here already.
    pub(super) fn extend(&mut self, other: Level, joint: Joint) -> Vec<(Place, Place)> {
        let nodes = other.nodes.into_iter();
        let added = nodes.map(|node| (node.place, self.add(node, joint)));
        added.filter_map(|(place, added)| Some((place, added.err()?))).collect()
    }

    fn find(&self, joint: Joint, key: &str, value: &str) -> Option<(&Node, How)> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut text = Text::from_slice(key.as_bytes());
        text.push(joint.byte());
        text.extend_from_slice(value.as_bytes());
        let exact = |text: &[u8]| self.exact.get(text).copied();
        let (number, how) = exact(&text)
            .map(|number| (number, How::Exact))
            .or_else(|| Some((self.first_wildcard(joint, &mut text, key, value)?, How::Wildcard)))
            .or_else(|| Some((exact(key.as_bytes())?, How::Bare)))?;
        Some((&self.nodes[number as usize], how))
    }

    /// The first wildcard of the file that matches; `text` is the key and the value, joined.
    fn first_wildcard(&self, joint: Joint, text: &mut Text, key: &str, value: &str) -> Option<u32> {
        if self.wildcards.is_empty() {
            return None;
        }
        text[key.len()] = b'_';
        let text = std::str::from_utf8(text).ok()?;
        let fits = |number: &u32| {
            joint == Joint::Underscore || self.nodes[*number as usize].fits(key, value)
        };
        self.wildcards.find(text).copied().filter(fits).min()
    }
}

impl Node {
    /// Whether key and value match, each on its own.
    fn fits(&self, key: &str, value: &str) -> bool {
        glob::matches(&self.key, key)
            && (self.value.is_empty() || glob::matches(&self.value, value))
    }
}
