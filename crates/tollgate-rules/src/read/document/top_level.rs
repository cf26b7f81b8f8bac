//! Reads the top level of a file: version, domain, defaults, declarations and rules.

use jiff::tz::TimeZone;

use super::DocumentReader;
use super::scalar::excerpt;
use crate::compile::policy::{MissingKey, OnError, Unmatched};
use crate::read::definition::{Defaults, Document};
use crate::read::diagnostic::Diagnostic;
use crate::read::source::Spanned;
use crate::read::yaml::YamlNode;
use tollgate::Consistency;
use tollgate::limit::grammar;

const FIELDS: [&str; 10] = [
    "version",
    "domain",
    "defaults",
    "trusted_proxies",
    "attributes",
    "lists",
    "plans",
    "overrides",
    "rules",
    "tests",
];

const DEFAULTS: [&str; 11] = [
    "unmatched",
    "on_error",
    "missing_key",
    "ipv6_prefix",
    "timezone",
    "plan",
    "consistency",
    "path_case",
    "path_params",
    "path_slash",
    "descriptors",
];

pub(super) const ON_ERROR: [(&str, OnError); 3] =
    [("allow", OnError::Allow), ("deny", OnError::Deny), ("local", OnError::Local)];
pub(super) const MISSING_KEY: [(&str, MissingKey); 3] =
    [("shared", MissingKey::Shared), ("skip", MissingKey::Skip), ("deny", MissingKey::Deny)];
pub(super) const CONSISTENCY: [(&str, Consistency); 3] = [
    ("strict", Consistency::Strict),
    ("leased", Consistency::Leased),
    ("synced", Consistency::Synced),
];
/// Whether case is ignored.
const PATH_CASE: [(&str, bool); 2] = [("ignore", true), ("exact", false)];
/// Whether parameters are stripped.
const PATH_PARAMS: [(&str, bool); 2] = [("strip", true), ("keep", false)];
/// Whether a slash at the end is kept.
const PATH_SLASH: [(&str, bool); 2] = [("strip", false), ("keep", true)];
/// Whether all descriptors of a request are decided together.
const DESCRIPTORS: [(&str, bool); 2] = [("each", false), ("together", true)];
const UNMATCHED: [(&str, Unmatched); 2] = [("allow", Unmatched::Allow), ("deny", Unmatched::Deny)];

impl DocumentReader<'_> {
    pub(super) fn document(&mut self, root: &YamlNode<'_>) -> Document {
        let mut document = Document { span: root.span, ..Document::default() };
        if root.is_null() {
            let message = "this file is empty";
            let diagnostic = Diagnostic::error("empty", root.span, message);
            self.diagnostics.push(
                diagnostic
                    .help("write rules, such as `rules: [{ name: all, per: ip, limit: 10/s }]`"),
            );
            return Document { has_unknown_domain: true, ..document };
        }
        let Some(fields) = self.fields(root, "a rules file", &FIELDS) else {
            return Document { has_unknown_domain: true, ..document };
        };
        if let Some(node) = fields.get("version") {
            self.version(node);
        }
        document.domain = fields.get("domain").and_then(|node| self.name(node, "a domain"));
        document.has_unknown_domain = document.domain.is_none() && fields.get("domain").is_some();
        // The defaults come first, because dates elsewhere are in their time zone.
        if let Some(node) = fields.get("defaults") {
            document.defaults = self.defaults(node);
        }
        if let Some(node) = fields.get("trusted_proxies") {
            document.trusted_proxies = self.proxies(node);
        }
        if let Some(node) = fields.get("attributes") {
            document.attributes = self.attributes(node);
            let names = document.attributes.iter().map(|attribute| attribute.name.value.clone());
            self.declared = names.collect();
        }
        if let Some(node) = fields.get("lists") {
            document.lists = self.lists(node);
        }
        if let Some(node) = fields.get("plans") {
            document.plans = self.plans(node);
        }
        if let Some(node) = fields.get("overrides") {
            document.overrides = self.overrides(node);
        }
        if let Some(node) = self.require(&fields, "rules", "a rules file", "rules: []") {
            document.rules = self.rules(node);
        }
        if let Some(node) = fields.get("tests") {
            document.cases = self.cases(node);
        }
        document
    }

    fn version(&mut self, node: &YamlNode<'_>) {
        let Some(text) = self.text(node, "a version") else { return };
        if text.value != "1" {
            let message = format!("version {} is not known here", excerpt(text.value));
            let diagnostic = Diagnostic::error("version", node.span, message);
            self.diagnostics.push(diagnostic.help("this release reads version 1").fix("1"));
        }
    }

    fn defaults(&mut self, node: &YamlNode<'_>) -> Defaults {
        let mut defaults = Defaults::default();
        let Some(fields) = self.fields(node, "`defaults`", &DEFAULTS) else { return defaults };
        if let Some(node) = fields.get("unmatched") {
            let word = self.choice(node, "unmatched", &UNMATCHED);
            defaults.unmatched = word.map_or_else(Default::default, |word| word.value);
        }
        if let Some(node) = fields.get("on_error") {
            let word = self.choice(node, "on_error", &ON_ERROR);
            defaults.on_error = word.map_or_else(Default::default, |word| word.value);
        }
        if let Some(node) = fields.get("missing_key") {
            let word = self.choice(node, "missing_key", &MISSING_KEY);
            defaults.missing_key = word.map_or_else(Default::default, |word| word.value);
        }
        if let Some(node) = fields.get("consistency") {
            let word = self.choice(node, "consistency", &CONSISTENCY);
            defaults.consistency = word.map_or_else(Default::default, |word| word.value);
        }
        if let Some(node) = fields.get("ipv6_prefix") {
            let bits = self.number(node, "a number of bits", 1..=128);
            defaults.ipv6_prefix = bits.and_then(|bits| u8::try_from(bits.value).ok());
        }
        if let Some(node) = fields.get("path_case") {
            let word = self.choice(node, "path_case", &PATH_CASE);
            defaults.path.ignores_case = word.is_none_or(|word| word.value);
        }
        if let Some(node) = fields.get("path_params") {
            let word = self.choice(node, "path_params", &PATH_PARAMS);
            defaults.path.strips_params = word.is_none_or(|word| word.value);
        }
        if let Some(node) = fields.get("path_slash") {
            let word = self.choice(node, "path_slash", &PATH_SLASH);
            defaults.path.keeps_slash = word.is_some_and(|word| word.value);
        }
        if let Some(node) = fields.get("descriptors") {
            let word = self.choice(node, "descriptors", &DESCRIPTORS);
            defaults.joins_descriptors = word.is_some_and(|word| word.value);
        }
        defaults.timezone = fields.get("timezone").and_then(|node| self.timezone(node));
        defaults.plan = fields.get("plan").and_then(|node| self.name(node, "a plan"));
        defaults
    }

    fn timezone(&mut self, node: &YamlNode<'_>) -> Option<Spanned<String>> {
        let text = self.text(node, "a time zone such as Europe/Berlin")?;
        match grammar::zone(text.value) {
            Ok(name) => {
                self.zone = TimeZone::get(&name).unwrap_or(TimeZone::UTC);
                Some(Spanned::new(name, node.span))
            }
            Err(error) => {
                self.grammar_error("bad-timezone", &text, error);
                None
            }
        }
    }
}
