//! Routes by segment: all routes that match a path, in time that depends on the path.

use foldhash::HashMap;
use smallvec::SmallVec;

use super::super::glob;
use super::super::route::Segment;

/// Nodes by number; the first is the root.
#[derive(Clone, Debug, Default)]
pub(super) struct Trie {
    nodes: Vec<Node>,
}

/// What can follow after some segments.
#[derive(Clone, Debug, Default)]
struct Node {
    literals: HashMap<Box<str>, u32>,
    any: Option<u32>,
    patterns: Vec<(Box<str>, u32)>,
    /// Routes that end here.
    leaves: SmallVec<[Leaf; 1]>,
    /// Routes that end here in `**`.
    rest: SmallVec<[Leaf; 1]>,
}

/// A route of a rule, and its methods.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub(super) rule: u32,
    pub(super) route: u32,
    pub(super) mask: u64,
}

impl Trie {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn insert(&mut self, segments: &[Segment], leaf: Leaf) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for segment in segments {
            if *segment == Segment::Rest {
                return self.nodes[at].rest.push(leaf);
            }
            at = self.child(at, segment);
        }
        self.nodes[at].leaves.push(leaf);
    }

    /// The node behind a segment, made if there is none.
    fn child(&mut self, at: usize, segment: &Segment) -> usize {
        let new = self.nodes.len() as u32;
        let node = &mut self.nodes[at];
        let child = match segment {
            Segment::Literal(literal) => *node.literals.entry(literal.clone()).or_insert(new),
            Segment::Pattern(pattern) => {
                let known = node.patterns.iter().find(|(known, _)| known == pattern);
                known.map(|(_, child)| *child).unwrap_or_else(|| {
                    node.patterns.push((pattern.clone(), new));
                    new
                })
            }
            Segment::Any(_) | Segment::Rest => *node.any.get_or_insert(new),
        };
        if child == new {
            self.nodes.push(Node::default());
        }
        child as usize
    }

    /// Every route that matches a path, and one of whose methods is `bit`.
    pub(super) fn find(&self, path: &str, bit: u64, found: &mut impl FnMut(&Leaf)) {
        if let Some(root) = self.nodes.first() {
            self.walk(root, path, bit, found);
        }
    }

    /// No deeper than the longest route.
    fn walk(&self, node: &Node, path: &str, bit: u64, found: &mut impl FnMut(&Leaf)) {
        let fits = |leaf: &&Leaf| leaf.mask & bit != 0;
        node.rest.iter().filter(fits).for_each(&mut *found);
        let path = path.trim_start_matches('/');
        if path.is_empty() {
            return node.leaves.iter().filter(fits).for_each(&mut *found);
        }
        let (segment, rest) = path.split_once('/').unwrap_or((path, ""));
        let matching = node.patterns.iter().filter(|(pattern, _)| glob::matches(pattern, segment));
        let children = matching.map(|(_, child)| child);
        for child in node.literals.get(segment).into_iter().chain(&node.any).chain(children) {
            self.walk(&self.nodes[*child as usize], rest, bit, found);
        }
    }
}
