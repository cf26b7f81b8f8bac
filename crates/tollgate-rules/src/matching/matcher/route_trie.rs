//! A trie of routes: finds all routes that match a path, in time that depends on the path.

use foldhash::HashMap;
use smallvec::SmallVec;

use crate::compile::glob;
use crate::compile::route::RouteSegment;

/// The trie, with its nodes by number; the first is the root.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteTrie {
    nodes: Vec<TrieNode>,
}

/// The segments that can follow, and the routes that end here.
#[derive(Clone, Debug, Default)]
struct TrieNode {
    literals: HashMap<Box<str>, u32>,
    any: Option<u32>,
    patterns: Vec<(Box<str>, u32)>,
    /// Routes that end in a prefix of the next segment: `login**`.
    prefixes: PrefixLeaves,
    /// Routes that end here.
    leaves: SmallVec<[RouteLeaf; 1]>,
    /// Routes that end here in `**`.
    rest: SmallVec<[RouteLeaf; 1]>,
}

/// Routes by the text that a segment begins with. A segment is looked up once for each length.
#[derive(Clone, Debug, Default)]
struct PrefixLeaves {
    /// The lengths of all prefixes, each once.
    lengths: Vec<usize>,
    leaves: HashMap<Box<str>, SmallVec<[RouteLeaf; 1]>>,
}

impl PrefixLeaves {
    fn insert(&mut self, prefix: &str, leaf: RouteLeaf) {
        if !self.lengths.contains(&prefix.len()) {
            self.lengths.push(prefix.len());
        }
        self.leaves.entry(prefix.into()).or_default().push(leaf);
    }

    fn find(&self, segment: &str) -> impl Iterator<Item = &RouteLeaf> {
        let prefixes = self.lengths.iter().filter_map(|length| segment.get(..*length));
        prefixes.filter_map(|prefix| self.leaves.get(prefix)).flatten()
    }
}

/// A route of a rule, and its methods.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteLeaf {
    pub(super) rule: u32,
    pub(super) route: u32,
    pub(super) mask: u64,
}

impl RouteTrie {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn insert(&mut self, segments: &[RouteSegment], leaf: RouteLeaf) {
        if self.nodes.is_empty() {
            self.nodes.push(TrieNode::default());
        }
        let mut at = 0;
        for segment in segments {
            match segment {
                RouteSegment::Rest => return self.nodes[at].rest.push(leaf),
                RouteSegment::Prefix(text) => return self.nodes[at].prefixes.insert(text, leaf),
                _ => at = self.child(at, segment),
            }
        }
        self.nodes[at].leaves.push(leaf);
    }

    /// Returns the node behind a segment, created if there is none.
    fn child(&mut self, at: usize, segment: &RouteSegment) -> usize {
        let new = self.nodes.len() as u32;
        let node = &mut self.nodes[at];
        let child = match segment {
            RouteSegment::Literal(literal) => *node.literals.entry(literal.clone()).or_insert(new),
            RouteSegment::Pattern(pattern) => {
                let known = node.patterns.iter().find(|(known, _)| known == pattern);
                known.map(|(_, child)| *child).unwrap_or_else(|| {
                    node.patterns.push((pattern.clone(), new));
                    new
                })
            }
            RouteSegment::Any(_) | RouteSegment::Prefix(_) | RouteSegment::Rest => {
                *node.any.get_or_insert(new)
            }
        };
        if child == new {
            self.nodes.push(TrieNode::default());
        }
        child as usize
    }

    /// Visits every route that matches a path and has the method of `bit`.
    pub(super) fn find(&self, path: &str, bit: u64, visit: &mut impl FnMut(&RouteLeaf)) {
        if let Some(root) = self.nodes.first() {
            self.walk(root, path, bit, visit);
        }
    }

    /// Walks no deeper than the longest route.
    fn walk(&self, node: &TrieNode, path: &str, bit: u64, visit: &mut impl FnMut(&RouteLeaf)) {
        let fits = |leaf: &&RouteLeaf| leaf.mask & bit != 0;
        node.rest.iter().filter(fits).for_each(&mut *visit);
        let path = path.trim_start_matches('/');
        if path.is_empty() {
            return node.leaves.iter().filter(fits).for_each(&mut *visit);
        }
        let (segment, rest) = path.split_once('/').unwrap_or((path, ""));
        node.prefixes.find(segment).filter(fits).for_each(&mut *visit);
        let matching = node.patterns.iter().filter(|(pattern, _)| glob::matches(pattern, segment));
        let children = matching.map(|(_, child)| child);
        for child in node.literals.get(segment).into_iter().chain(&node.any).chain(children) {
            self.walk(&self.nodes[*child as usize], rest, bit, visit);
        }
    }
}
