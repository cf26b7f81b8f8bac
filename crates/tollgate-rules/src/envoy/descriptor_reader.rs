//! Reads a YAML tree into a tree of descriptors, and reports every error with its span.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Metadata;
use super::descriptor_tree::{DescriptorLevel, DescriptorNode, DescriptorTree, Separator};
use super::fields::{
    DESCRIPTOR, EnvoyFields, FILE, MappingSchema, RATE_LIMIT, SHORT, SHORT_RATE_LIMIT,
};
use super::rate_limit::RateLimitDefinition;
use super::replaced_names::ReplacedNames;
use crate::compile::attribute::is_secret_name;
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::yaml::{self, YamlValue};

/// The number of trees read in this process.
static TREES: AtomicU64 = AtomicU64::new(0);

/// Whether a file is one of Envoy's rate limit service rather than a rules file.
pub(crate) fn is_envoy(root: &yaml::YamlNode<'_>) -> bool {
    let YamlValue::Map(pairs) = &root.value else { return false };
    let has = |name: &str| pairs.iter().any(|(key, _)| key.text() == Some(name));
    !has("rules") && !has("version") && (has("descriptors") || is_short(root))
}

/// Whether a file is in the short form: one domain, one key.
fn is_short(root: &yaml::YamlNode<'_>) -> bool {
    let YamlValue::Map(pairs) = &root.value else { return false };
    let has = |name: &str| pairs.iter().any(|(key, _)| key.text() == Some(name));
    has("key") && (has("rate_limit") || has("rate_limits"))
}

/// Reads one file. Its errors go to `diagnostics`, and a file with errors has no tree.
pub(crate) fn read(
    root: &yaml::YamlNode<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<DescriptorTree> {
    let errors = diagnostics.errors().count();
    let tree = read_valid_parts(root, diagnostics)?;
    (diagnostics.errors().count() == errors).then_some(tree)
}

/// Reads the valid parts of one file. Its errors go to `diagnostics`.
pub(super) fn read_valid_parts(
    root: &yaml::YamlNode<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<DescriptorTree> {
    let is_short = is_short(root);
    let fields = EnvoyFields::read(root, if is_short { &SHORT } else { &FILE }, diagnostics)?;
    let domain = fields.text("domain", diagnostics).unwrap_or_default();
    let span = fields.get("domain").map_or(root.span.subspan(0..0), |node| node.span);
    if domain.is_empty() {
        let error = Diagnostic::error("missing-field", span, "this file has no `domain`");
        diagnostics.push(error.help("add `domain`: a name that no other file has"));
    }
    let separator = match fields.flag("strict", diagnostics) {
        true => Separator::Strict,
        false => Separator::Underscore,
    };
    let limit_kind = if is_short { &SHORT_RATE_LIMIT } else { &RATE_LIMIT };
    let mut reader = DescriptorReader {
        domain,
        separator,
        limit_kind,
        diagnostics,
        names: ReplacedNames::default(),
    };
    let mut root = DescriptorLevel::default();
    match is_short {
        true => reader.descriptor(&fields, &mut root, domain),
        false => root = reader.level(&fields, domain),
    }
    let names = reader.names;
    Some(DescriptorTree {
        domain: domain.into(),
        span,
        separator,
        is_short,
        root,
        names,
        number: TREES.fetch_add(1, Ordering::Relaxed),
        limited: 0,
        request_limits: None,
    })
}

/// Reads the descriptors of one file.
struct DescriptorReader<'n, 'f> {
    domain: &'n str,
    separator: Separator,
    limit_kind: &'static MappingSchema,
    diagnostics: &'f mut Diagnostics,
    names: ReplacedNames,
}

impl<'n> DescriptorReader<'n, '_> {
    /// Reads the descriptors of a list; `path` leads to it.
    fn level(&mut self, fields: &EnvoyFields<'n>, path: &str) -> DescriptorLevel {
        let mut level = DescriptorLevel::default();
        for node in fields.list("descriptors", self.diagnostics) {
            if self.diagnostics.is_full() {
                break;
            }
            if let Some(fields) = EnvoyFields::read(node, &DESCRIPTOR, self.diagnostics) {
                self.descriptor(&fields, &mut level, path);
            }
        }
        level
    }

    /// Reads one descriptor into `level`.
    fn descriptor(&mut self, fields: &EnvoyFields<'n>, level: &mut DescriptorLevel, path: &str) {
        let key = fields.text("key", self.diagnostics);
        let value = fields.text("value", self.diagnostics);
        let named = fields.get("value").or(fields.get("key")).map_or(fields.span, |node| node.span);
        if key == Some("") {
            let span = fields.get("key").map_or(fields.span, |node| node.span);
            let error = Diagnostic::error("empty-key", span, "this descriptor has no `key`");
            self.diagnostics
                .push(error.help("add `key`: what the descriptors of requests call it"));
        }
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        let path = match value {
            "" => format!("{path}.{key}"),
            value => format!("{path}.{key}_{value}"),
        };
        let (limits, extended) = self.limits(fields);
        let shared = fields.flag("share_threshold", self.diagnostics);
        if let (true, false, Some(node)) =
            (shared, key.contains('*') || value.contains('*'), fields.get("share_threshold"))
        {
            let message = "`share_threshold` needs a value with a `*`";
            let error = Diagnostic::error("share-threshold", node.span, message);
            self.diagnostics
                .push(error.help("a value without one has a counter of its own anyway"));
        }
        let metadata = fields.get("metadata").map(|node| Metadata::read(node));
        if let (Some(node), Some(metadata)) = (fields.get("metadata"), &metadata)
            && !matches!(metadata, Metadata::Map(_))
        {
            let message = format!("`metadata` is a mapping, this is {}", node.kind());
            self.diagnostics.push(Diagnostic::error("wrong-kind", node.span, message));
        }
        let node = DescriptorNode {
            key: key.into(),
            value: value.into(),
            span: named,
            limits,
            extended,
            shadow: fields.flag("shadow_mode", self.diagnostics),
            quota: fields.flag("quota_mode", self.diagnostics),
            shared,
            secret: is_secret_name(key),
            detailed_metric: fields.flag("detailed_metric", self.diagnostics),
            value_to_metric: fields.flag("value_to_metric", self.diagnostics),
            metadata: metadata.map(Arc::new),
            metric: None,
            children: self.level(fields, &path),
        };
        if let Err(earlier) = level.add(node, self.separator) {
            let message = format!("{path} is described twice");
            let error = Diagnostic::error("duplicate-descriptor", named, message);
            self.diagnostics.push(error.related(earlier, "here as well"));
        }
    }

    /// Reads the limits of a descriptor, all of which apply, and whether they are extended.
    fn limits(&mut self, fields: &EnvoyFields<'n>) -> (Vec<super::rate_limit::RateLimit>, bool) {
        let one = fields.get("rate_limit").into_iter();
        let several = fields.list("rate_limits", self.diagnostics);
        let mut definitions = Vec::new();
        for node in one.chain(several) {
            let errors = self.diagnostics.errors().count();
            let limit = RateLimitDefinition::read(node, self.limit_kind, self.diagnostics);
            let is_valid = self.diagnostics.errors().count() == errors;
            definitions.extend(limit.map(|limit| (limit, is_valid)));
        }
        let extended = definitions.iter().any(|(limit, _)| limit.is_extended());
        let mut limits = Vec::with_capacity(definitions.len());
        for (limit, is_valid) in definitions {
            self.names.add(limit.name.as_ref(), &limit.replaces);
            // An invalid limit is compiled too, so that all its errors are reported.
            let compiled = limit.compile(self.domain, extended, &limits, self.diagnostics);
            limits.extend(compiled.filter(|_| is_valid));
        }
        (limits, extended)
    }
}

#[cfg(test)]
mod tests {
    use super::is_envoy;
    use crate::read::yaml;

    #[test]
    fn envoy_files_are_distinguished_from_rules() {
        for (file, expected) in [
            ("{ domain: d, descriptors: [] }", true),
            ("{ descriptors: }", true),
            ("{ domain: d, key: k, rate_limit: { unit: day, requests: 1 } }", true),
            ("{ key: k, rate_limits: [] }", true),
            ("{ domain: d, rules: [] }", false),
            ("{ version: 1, descriptors: [] }", false),
            ("{ domain: d }", false),
            ("{ key: k }", false),
            ("[descriptors]", false),
            ("", false),
        ] {
            let root = yaml::parse(file, 0).unwrap();
            assert_eq!(is_envoy(&root), expected, "{file}");
        }
    }
}
