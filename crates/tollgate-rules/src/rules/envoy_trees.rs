//! The domains of a rule set that were written for Envoy's rate limit service.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::Time;

use super::{Rules, duplicate_domain};
use crate::actions::modes::TemporaryMode;
use crate::envoy::{self, DescriptorTree};
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

    /// Makes one tree of each domain, none of which may be one of `rule_domains`.
    pub(super) fn finish(
        self,
        rule_domains: &HashMap<Box<str>, usize>,
        diagnostics: &mut Diagnostics,
    ) -> EnvoyTrees {
        let trees = envoy::join(self.trees, diagnostics);
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

    pub(super) fn is_empty(&self) -> bool {
        self.by_domain.is_empty()
    }
}

impl Rules {
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
