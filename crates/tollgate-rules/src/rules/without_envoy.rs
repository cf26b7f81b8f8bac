//! The empty stand-in for descriptor trees where the feature `envoy` is off.

use std::collections::HashMap;

use crate::Diagnostics;
use crate::actions::modes::TemporaryMode;
use crate::read::yaml::YamlNode;

pub(super) use self::{NoEnvoyTrees as EnvoyTrees, NoEnvoyTrees as EnvoyTreeReader};

/// An empty set of descriptor trees, and the reader that takes no file for one of Envoy's.
#[derive(Clone, Debug, Default)]
pub(super) struct NoEnvoyTrees {}

impl NoEnvoyTrees {
    pub(super) fn read(&mut self, _: &YamlNode<'_>, _: &mut Diagnostics) -> bool {
        false
    }

    pub(super) fn finish(
        self,
        _: bool,
        _: &HashMap<Box<str>, usize>,
        _: &mut Diagnostics,
    ) -> NoEnvoyTrees {
        NoEnvoyTrees {}
    }

    pub(super) fn domain_names(&self) -> Vec<&str> {
        Vec::new()
    }

    pub(super) fn with_disabled(&self, _: HashMap<Box<str>, TemporaryMode>) -> NoEnvoyTrees {
        NoEnvoyTrees {}
    }

    pub(super) fn contains(&self, _: &str) -> bool {
        false
    }

    pub(super) fn limit_counts(&self) -> (usize, usize) {
        (0, 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        true
    }
}
