//! The names of descriptors in metrics, which `detailed_metric` and `value_to_metric` change.

use super::Descriptor;
use super::descriptor_tree::{DescriptorMatch, DescriptorNode, DescriptorTree};

impl DescriptorTree {
    /// Returns the name of a descriptor in metrics; none if it has no limit.
    ///
    /// Values that a client chooses are in it only where the file requests them, so there are as many
    /// names as the file has descriptors.
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
    /// assert_eq!(name.as_deref(), Some("web.route_api.user"));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn metric_name(&self, descriptor: &Descriptor<'_>) -> Option<String> {
        let mut usual = self.domain().to_owned();
        let mut detailed = usual.clone();
        if descriptor.limit.is_some() {
            descriptor.entries.iter().for_each(|(key, value)| push(&mut usual, key, value));
            return Some(usual);
        }
        let leaf = self.walk(descriptor.entries, |node, matched, (key, value)| {
            let pattern = pattern_of(node, key);
            push(
                &mut usual,
                key,
                match matched {
                    _ if node.shared => &pattern,
                    DescriptorMatch::Exact => value,
                    DescriptorMatch::Wildcard | DescriptorMatch::Bare if node.value_to_metric => {
                        value
                    }
                    DescriptorMatch::Wildcard => &pattern,
                    DescriptorMatch::Bare => "",
                },
            );
            push(&mut detailed, key, if node.shared { &pattern } else { value });
        })?;
        let name = if leaf.detailed_metric { detailed } else { usual };
        (!leaf.limits.is_empty()).then_some(name)
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

fn push(name: &mut String, key: &str, value: &str) {
    name.push('.');
    name.push_str(key);
    if !value.is_empty() {
        name.push('_');
        name.push_str(value);
    }
}
