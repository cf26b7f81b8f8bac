//! The domains of a rule set that were written for Envoy's rate limit service.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::Time;

use super::{Rules, duplicate_domain};
use crate::actions::modes::TemporaryMode;
use crate::envoy::{self, DescriptorTree, SharedDomains};
use crate::read::yaml::YamlNode;
use crate::{Diagnostics, Request};

/// The descriptor trees of a rule set.
#[derive(Clone, Debug, Default)]
pub(super) struct EnvoyTrees {
    by_domain: HashMap<Box<str>, Arc<DescriptorTree>>,
    /// The domains that are switched off, with the mode that does so.
    disabled: HashMap<Box<str>, TemporaryMode>,
}

/// Collects the descriptor trees of several sources.
#[derive(Default)]
pub(super) struct EnvoyTreeReader {
    trees: Vec<DescriptorTree>,
}

impl EnvoyTreeReader {
    /// Reads a file if it is one of Envoy's, and returns whether it is.
    pub(super) fn read(&mut self, root: &YamlNode<'_>, diagnostics: &mut Diagnostics) -> bool {
        let is_envoy = envoy::is_envoy(root);
        if is_envoy {
            self.trees.extend(envoy::read(root, diagnostics));
        }
        is_envoy
    }

    /// Makes one tree of each domain, to which several files may contribute if `merge_domains` is set,
    /// and none of which may be one of `rule_domains`.
    pub(super) fn finish(
        self,
        merge_domains: bool,
        rule_domains: &HashMap<Box<str>, usize>,
        diagnostics: &mut Diagnostics,
    ) -> EnvoyTrees {
        let shared = match merge_domains {
            true => SharedDomains::AllFiles,
            false => SharedDomains::ShortFiles,
        };
        let trees = envoy::join(self.trees, shared, diagnostics);
        for tree in &trees {
            if rule_domains.contains_key(tree.domain()) {
                diagnostics.push(duplicate_domain(tree.domain(), tree.span));
            }
        }
        let by_domain = trees.into_iter().map(|tree| (tree.domain().into(), Arc::new(tree)));
        EnvoyTrees { by_domain: by_domain.collect(), disabled: HashMap::new() }
    }
}

impl EnvoyTrees {
    pub(super) fn domain_names(&self) -> Vec<&str> {
        self.by_domain.keys().map(|name| &**name).collect()
    }

    pub(super) fn with_disabled(&self, disabled: HashMap<Box<str>, TemporaryMode>) -> EnvoyTrees {
        EnvoyTrees { by_domain: self.by_domain.clone(), disabled }
    }

    pub(super) fn contains(&self, domain: &str) -> bool {
        self.by_domain.contains_key(domain)
    }

    /// Returns the number of descriptors with limits, and of their limits.
    pub(super) fn limit_counts(&self) -> (usize, usize) {
        let counts = self.by_domain.values().map(|tree| tree.limit_counts());
        counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_domain.is_empty()
    }
}

impl Rules {
    /// Whether a domain was written for Envoy.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    /// let rules: Rules = "{ domain: d, descriptors: [{ key: user }] }".parse()?;
    /// assert!(rules.is_envoy_domain("d") && !rules.is_envoy_domain("elsewhere"));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn is_envoy_domain(&self, domain: &str) -> bool {
        self.0.trees.contains(domain)
    }

    /// Returns the limits of all domains that were written for Envoy, one in a line, as Envoy's own
    /// service prints them at `/rlconfig`.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    /// let rules: Rules = "
    /// domain: d
    /// descriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 5 } }]
    /// ".parse()?;
    /// let line = "d.user: unit=DAY requests_per_unit=5, shadow_mode: false, quota_mode: false\n";
    /// assert_eq!(rules.envoy_config(), line);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn envoy_config(&self) -> String {
        let mut trees: Vec<&DescriptorTree> =
            self.0.trees.by_domain.values().map(|tree| &**tree).collect();
        trees.sort_by_key(|tree| tree.domain());
        trees.iter().map(|tree| tree.dump()).collect()
    }

    /// Whether a domain that was written for Envoy is switched off.
    pub(crate) fn is_tree_disabled(&self, tree: &DescriptorTree, now: Time) -> bool {
        let disabled = &self.0.trees.disabled;
        !disabled.is_empty() && disabled.get(tree.domain()).is_some_and(|set| set.at(now).is_some())
    }

    /// Returns the descriptors of a domain.
    pub(crate) fn tree(&self, domain: &str) -> Option<&DescriptorTree> {
        self.0.trees.by_domain.get(domain).map(|tree| &**tree)
    }

    /// Returns the descriptors that apply to a request: of the domain it names, or the only one.
    pub(crate) fn tree_of(&self, request: &Request<'_>) -> Option<&DescriptorTree> {
        let trees = &self.0.trees.by_domain;
        match request.domain {
            Some(name) => self.tree(name),
            None if self.0.domains.is_empty() && trees.len() == 1 => {
                trees.values().next().map(|tree| &**tree)
            }
            None => None,
        }
    }
}
