//! From a YAML tree to a tree of descriptors: every mistake at once, each where it stands.

use std::collections::HashSet;
use std::sync::Arc;

use super::Metadata;
use super::fields::{DESCRIPTOR, FILE, Fields, Kind, RATE_LIMIT, SHORT, SHORT_RATE_LIMIT};
use super::limit::Written;
use super::tree::{Joint, Level, Node, Tree};
use crate::rules::diagnostic::{Diagnostic, Diagnostics};
use crate::rules::source::Place;
use crate::rules::suggest;
use crate::rules::yaml::{self, Value};

/// Whether a file is written in this format rather than in ours.
pub(crate) fn is_envoy(root: &yaml::Node<'_>) -> bool {
    let Value::Map(pairs) = &root.value else { return false };
    let has = |name: &str| pairs.iter().any(|(key, _)| key.text() == Some(name));
    !has("rules") && !has("version") && (has("descriptors") || is_short(root))
}

/// Whether it is the short form: one domain, one key.
fn is_short(root: &yaml::Node<'_>) -> bool {
    let Value::Map(pairs) = &root.value else { return false };
    let has = |name: &str| pairs.iter().any(|(key, _)| key.text() == Some(name));
    has("key") && (has("rate_limit") || has("rate_limits"))
}

/// Reads one file; what is wrong with it goes to `found`, and then there is no tree.
pub(crate) fn read(root: &yaml::Node<'_>, found: &mut Diagnostics) -> Option<Tree> {
    let errors = found.errors().count();
    let is_short = is_short(root);
    let fields = Fields::read(root, if is_short { &SHORT } else { &FILE }, found)?;
    let domain = fields.text("domain", found).unwrap_or_default();
    let place = fields.get("domain").map_or(root.place.part(0..0), |node| node.place);
    if domain.is_empty() {
        let error = Diagnostic::error("missing-field", place, "this file has no `domain`");
        found.push(error.help("add `domain`: a name that no other file has"));
    }
    let joint = match fields.flag("strict", found) {
        true => Joint::Strict,
        false => Joint::Underscore,
    };
    let limit_kind = if is_short { &SHORT_RATE_LIMIT } else { &RATE_LIMIT };
    let mut reader =
        Reader { domain, joint, limit_kind, found, names: HashSet::new(), replaced: Vec::new() };
    let mut root = Level::default();
    match is_short {
        true => reader.descriptor(&fields, &mut root, domain),
        false => root = reader.level(&fields, domain),
    }
    reader.warn_of_names_nobody_has();
    (found.errors().count() == errors).then(|| Tree {
        domain: domain.into(),
        place,
        joint,
        is_short,
        root,
    })
}

/// The most names a misspelt one is compared with.
const MAX_COMPARED: usize = 100;

struct Reader<'n, 'f> {
    domain: &'n str,
    joint: Joint,
    limit_kind: &'static Kind,
    found: &'f mut Diagnostics,
    /// The names of limits.
    names: HashSet<Arc<str>>,
    /// The names of limits to be replaced, and where they are.
    replaced: Vec<(Arc<str>, Place)>,
}

impl<'n> Reader<'n, '_> {
    /// The descriptors of a list; `path` leads to it.
    fn level(&mut self, fields: &Fields<'n>, path: &str) -> Level {
        let mut level = Level::default();
        for node in fields.list("descriptors", self.found) {
            if self.found.is_full() {
                break;
            }
            if let Some(fields) = Fields::read(node, &DESCRIPTOR, self.found) {
                self.descriptor(&fields, &mut level, path);
            }
        }
        level
    }

    /// Reads one descriptor into `level`.
    fn descriptor(&mut self, fields: &Fields<'n>, level: &mut Level, path: &str) {
        let key = fields.text("key", self.found);
        let value = fields.text("value", self.found);
        let named =
            fields.get("value").or(fields.get("key")).map_or(fields.place, |node| node.place);
        if key == Some("") {
            let place = fields.get("key").map_or(fields.place, |node| node.place);
            let error = Diagnostic::error("empty-key", place, "this descriptor has no `key`");
            self.found.push(error.help("add `key`: what the descriptors of requests call it"));
        }
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        let path = match value {
            "" => format!("{path}.{key}"),
            value => format!("{path}.{key}_{value}"),
        };
        let (limits, extended) = self.limits(fields);
        let shared = fields.flag("share_threshold", self.found);
        if let (true, false, Some(node)) =
            (shared, key.contains('*') || value.contains('*'), fields.get("share_threshold"))
        {
            let message = "`share_threshold` needs a value with a `*`";
            let error = Diagnostic::error("share-threshold", node.place, message);
            self.found.push(error.help("a value without one has a counter of its own anyway"));
        }
        let metadata = fields.get("metadata").map(|node| Metadata::read(node));
        if let (Some(node), Some(metadata)) = (fields.get("metadata"), &metadata)
            && !matches!(metadata, Metadata::Map(_))
        {
            let message = format!("`metadata` is a mapping, this is {}", node.kind());
            self.found.push(Diagnostic::error("wrong-kind", node.place, message));
        }
        let node = Node {
            key: key.into(),
            value: value.into(),
            place: named,
            limits,
            extended,
            shadow: fields.flag("shadow_mode", self.found),
            quota: fields.flag("quota_mode", self.found),
            shared,
            detailed_metric: fields.flag("detailed_metric", self.found),
            value_to_metric: fields.flag("value_to_metric", self.found),
            metadata: metadata.map(Arc::new),
            children: self.level(fields, &path),
        };
        if let Err(earlier) = level.add(node, self.joint) {
            let message = format!("{path} is described twice");
            let error = Diagnostic::error("duplicate-descriptor", named, message);
            self.found.push(error.related(earlier, "here as well"));
        }
    }

    /// The limits of a descriptor, all of which apply, and whether they are extended.
    fn limits(&mut self, fields: &Fields<'n>) -> (Vec<super::limit::RateLimit>, bool) {
        let one = fields.get("rate_limit").into_iter();
        let several = fields.list("rate_limits", self.found);
        let mut written = Vec::new();
        for node in one.chain(several) {
            written.extend(Written::read(node, self.limit_kind, self.found));
        }
        let extended = written.iter().any(Written::is_extended);
        let mut limits = Vec::with_capacity(written.len());
        for one in written {
            self.names.extend(one.name.clone());
            self.replaced.extend(one.replaces.iter().map(|name| (name.value.clone(), name.place)));
            limits.extend(one.compile(self.domain, extended, &limits, self.found));
        }
        (limits, extended)
    }

    fn warn_of_names_nobody_has(&mut self) {
        for (name, place) in &self.replaced {
            if self.names.contains(name) {
                continue;
            }
            let message = format!("no limit of this file is called {name:?}");
            let warning = Diagnostic::warning("unknown-name", *place, message);
            let names = self.names.iter().take(MAX_COMPARED).map(|name| &**name);
            self.found.push(match suggest::closest(name, names) {
                Some(meant) => warning.fix(meant),
                None => warning.help("give the limit to be replaced that name"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_envoy;
    use crate::rules::yaml;

    #[test]
    fn the_formats_are_told_apart() {
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
