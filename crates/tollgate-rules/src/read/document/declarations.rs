//! Reads declarations: trusted proxies, attributes, lists, plans.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::DocumentReader;
use super::scalar::excerpt;
use crate::compile::attribute_catalogue::{BUILT_IN, GROUPS};
use crate::read::definition::{AttributeDefinition, ListDefinition, PlanDefinition};
use crate::read::diagnostic::Diagnostic;
use crate::read::source::{SourceSpan, Spanned};
use crate::read::yaml::{MAX_NODES, YamlNode, YamlValue};

/// The words of the expression language, which cannot name an attribute.
const RESERVED: [&str; 6] = ["lists", "plans", "true", "false", "null", "in"];

/// The maximum number of declared attributes: every name of a rule is looked up among them.
const MAX_ATTRIBUTES: usize = 1_000;
/// The maximum length of the name of an attribute, in bytes.
const MAX_NAME: usize = 64;

/// The maximum number of limits of a rule, and of an entry of a plan.
pub(super) const MAX_LIMITS: usize = 16;

impl DocumentReader<'_> {
    pub(super) fn proxies(&mut self, node: &YamlNode<'_>) -> Vec<Spanned<IpNet>> {
        let nodes =
            self.list(node, "a list of addresses and networks, as in [10.0.0.0/8]", MAX_NODES);
        self.each(nodes, Self::network)
    }

    /// Reads a network, or one address as a network of its own.
    fn network(&mut self, node: &YamlNode<'_>) -> Option<Spanned<IpNet>> {
        let text = self.text(node, "an address or a network such as 10.0.0.0/8")?;
        let text = text.trim();
        let alone = || text.parse::<IpAddr>().map(IpNet::from);
        let Ok(network) = text.parse::<IpNet>().or_else(|_| alone()) else {
            let message = format!("{} is no address and no network", excerpt(text));
            let diagnostic = Diagnostic::error("bad-address", node.span, message);
            self.diagnostics.push(diagnostic.help(
                "write an address such as 192.0.2.7, or a network such as 10.0.0.0/8 or 2001:db8::/32",
            ));
            return None;
        };
        let trunk = network.trunc();
        if trunk != network {
            let message = format!("{} is an address inside {trunk}", network.addr());
            let diagnostic = Diagnostic::error("bad-address", node.span, message);
            self.diagnostics
                .push(diagnostic.label("bits after the prefix are set").fix(trunk.to_string()));
            return None;
        }
        Some(Spanned::new(network, node.span))
    }

    /// Reads the names that callers send, `[org, user]`, or a mapping of names to expressions.
    pub(super) fn attributes(&mut self, node: &YamlNode<'_>) -> Vec<AttributeDefinition> {
        if let YamlValue::List(_) = &node.value {
            return self.sent_attributes(node);
        }
        let what = "a list of names that callers send, as in [org, user], or a mapping of names \
                    to expressions, as in { user: jwt.sub }";
        let mut entries = self.entries(node, what);
        if let Some((name, _)) = entries.get(MAX_ATTRIBUTES) {
            let message = format!("a file declares at most {MAX_ATTRIBUTES} attributes");
            self.diagnostics.push(Diagnostic::error("too-many", name.span, message));
            entries.truncate(MAX_ATTRIBUTES);
        }
        let mut attributes = Vec::new();
        for (name, node) in entries {
            let is_sent = matches!(&node.value, YamlValue::Map(_));
            let valid = self.check_attribute(&name, is_sent);
            if let (true, Some((value, secret))) = (valid, self.attribute(node)) {
                if name.ends_with(".*") && (value.is_some() || secret.is_some()) {
                    let message = "a group of names has no `value` and no `secret`";
                    let diagnostic = Diagnostic::error("conflicting-fields", name.span, message);
                    self.diagnostics.push(diagnostic.help("declare its attributes one by one"));
                    continue;
                }
                let name = name.map(str::to_owned);
                attributes.push(AttributeDefinition { name, value, secret });
            }
        }
        attributes
    }

    fn sent_attributes(&mut self, node: &YamlNode<'_>) -> Vec<AttributeDefinition> {
        let nodes = self.list(node, "a list of names", MAX_ATTRIBUTES);
        let mut attributes: Vec<AttributeDefinition> = Vec::new();
        let mut names: HashMap<String, SourceSpan> = HashMap::new();
        for node in nodes {
            let Some(name) = self.text(node, "a name such as org") else {
                self.help("write `{ org: 'header[\"x-org\"]' }` to name an expression");
                continue;
            };
            if !self.check_attribute(&name, true) {
                continue;
            }
            let name = name.map(str::to_owned);
            if let Some(first) = names.insert(name.value.clone(), name.span) {
                let message = format!("{} is written twice", excerpt(&name));
                let diagnostic = Diagnostic::error("duplicate-key", name.span, message);
                let diagnostic = diagnostic.label("again here").related(first, "first here");
                self.diagnostics.push(diagnostic.help("keep one of them"));
                continue;
            }
            attributes.push(AttributeDefinition { name, value: None, secret: None });
        }
        attributes
    }

    /// Reads an expression, alone or with its secrecy: `{ value: jwt.sub, secret: true }`. Without a
    /// value, callers send the attribute: `{}`.
    fn attribute(
        &mut self,
        node: &YamlNode<'_>,
    ) -> Option<(Option<Spanned<String>>, Option<bool>)> {
        let what = "an expression such as jwt.sub";
        if node.is_null() {
            self.wrong_kind(node, what);
            self.help("write `{}` if callers send the attribute with the request");
            return None;
        }
        if !matches!(node.value, YamlValue::Map(_)) {
            return Some((Some(self.owned(node, what)?), None));
        }
        let fields = self.fields(node, "an attribute", &["value", "secret"])?;
        let value = match fields.get("value") {
            Some(node) => Some(self.owned(node, what)?),
            None => None,
        };
        let secret = fields.get("secret").and_then(|node| self.flag(node, "secret"));
        Some((value, secret))
    }

    /// Checks the name of an attribute. One that callers send may be all names below another:
    /// `auth.*`.
    fn check_attribute(&mut self, name: &Spanned<&str>, is_sent: bool) -> bool {
        let group = name.value.strip_suffix(".*").filter(|_| is_sent);
        let plain = group.unwrap_or(name.value);
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let first = plain.split('.').next().unwrap_or_default();
        let diagnostic = if !plain.split('.').all(is_word) || name.len() > MAX_NAME {
            let message = format!("{} is no name for an attribute", excerpt(name.value));
            let diagnostic = Diagnostic::error("bad-name", name.span, message)
                .help("use up to 64 letters, digits, `_` and dots, not a digit first");
            let underscored: String =
                name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let is_meant = name.len() <= MAX_NAME && is_word(&underscored);
            if is_meant { diagnostic.fix(underscored) } else { diagnostic }
        } else if BUILT_IN.contains(&first) || GROUPS.contains(&plain) {
            let message = format!("{} is built in and cannot be defined", excerpt(name.value));
            let help = match is_sent {
                true => "remove it: rules can use it as it is",
                false => "choose another name, and use that in rules",
            };
            Diagnostic::error("reserved-name", name.span, message).help(help)
        } else if RESERVED.contains(&first) {
            let message = format!("{} is a word of the language", excerpt(name.value));
            Diagnostic::error("reserved-name", name.span, message).help("choose another name")
        } else {
            return true;
        };
        self.diagnostics.push(diagnostic);
        false
    }

    pub(super) fn lists(&mut self, node: &YamlNode<'_>) -> Vec<ListDefinition> {
        let what = "a mapping of names to lists, as in { office: [203.0.113.0/24] }";
        let mut lists = Vec::new();
        for (name, node) in self.entries(node, what) {
            let valid = self.check_name(&name, "a list");
            let nodes = self.list(node, "a list of addresses, names and patterns", MAX_NODES);
            let what = "an address, a name or a pattern";
            let entries = self.each(nodes, |reader, node| reader.owned(node, what));
            if valid {
                lists.push(ListDefinition { name: name.map(str::to_owned), entries });
            }
        }
        lists
    }

    pub(super) fn plans(&mut self, node: &YamlNode<'_>) -> Vec<PlanDefinition> {
        let what = "a mapping of names to plans, as in { free: { api: 60/h } }";
        let mut plans = Vec::new();
        for (name, node) in self.entries(node, what) {
            let valid = self.check_name(&name, "a plan");
            let mut limits = Vec::new();
            for (limit_name, node) in
                self.entries(node, "a mapping of names to limits, as in { api: 60/h }")
            {
                let valid = self.check_name(&limit_name, "a limit");
                let several = self.plan_limits(node);
                if valid {
                    limits.push((limit_name.map(str::to_owned), several));
                }
            }
            if valid {
                plans.push(PlanDefinition { name: name.map(str::to_owned), limits });
            }
        }
        plans
    }

    /// Reads limits that are written out: a plan cannot refer to a plan.
    pub(super) fn plan_limits(&mut self, node: &YamlNode<'_>) -> Vec<Spanned<tollgate::Limit>> {
        if matches!(node.value, YamlValue::Map(_)) {
            return self.plain_limit(node).into_iter().collect();
        }
        let nodes = self.several(node, "a limit", MAX_LIMITS);
        nodes.iter().filter_map(|node| self.plain_limit(node)).collect()
    }
}
