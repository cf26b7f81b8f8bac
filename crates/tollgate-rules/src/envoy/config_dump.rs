//! The limits of all domains as text, as Envoy's own service prints them at `/rlconfig`.

use std::fmt::Write;

use super::descriptor_tree::{DescriptorLevel, DescriptorTree};

impl DescriptorTree {
    /// Returns a line for each limit.
    pub(crate) fn dump(&self) -> String {
        let mut text = String::new();
        dump_level(&self.root, self.domain(), &mut text);
        text
    }

    /// Returns the number of descriptors with limits, and of their limits that are not `unlimited`.
    pub(crate) fn limit_counts(&self) -> (usize, usize) {
        count_limits(&self.root)
    }
}

fn count_limits(level: &DescriptorLevel) -> (usize, usize) {
    level.nodes().iter().fold((0, 0), |(descriptors, limits), node| {
        let below = count_limits(&node.children);
        let own = node.limits.iter().filter(|limit| limit.counted.is_some()).count();
        (descriptors + usize::from(!node.limits.is_empty()) + below.0, limits + own + below.1)
    })
}

fn dump_level(level: &DescriptorLevel, path: &str, text: &mut String) {
    for node in level.nodes() {
        let path = match &*node.value {
            "" => format!("{path}.{}", node.key),
            value => format!("{path}.{}_{value}", node.key),
        };
        for limit in &node.limits {
            let (unit, requests) = match &limit.counted {
                Some(counted) => (counted.unit.as_str().to_uppercase(), counted.requests),
                None => ("UNKNOWN".to_owned(), 0),
            };
            let (shadow, quota) = (node.shadow, node.quota);
            // Writing to memory does not fail.
            let _ = writeln!(
                text,
                "{path}: unit={unit} requests_per_unit={requests}, shadow_mode: {shadow}, \
                 quota_mode: {quota}"
            );
        }
        dump_level(&node.children, &path, text);
    }
}
