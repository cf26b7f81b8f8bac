//! Reads declarations: trusted proxies, attributes, lists, plans.

use std::net::IpAddr;

use ipnet::IpNet;

use super::DocumentReader;
use super::scalar::excerpt;
use crate::compile::attribute::BUILT_IN;
use crate::read::definition::{AttributeDefinition, ListDefinition, PlanDefinition};
use crate::read::diagnostic::Diagnostic;
use crate::read::source::Spanned;
use crate::read::yaml::{MAX_NODES, YamlNode, YamlValue};

/// The words of the expression language, which cannot name an attribute.
const RESERVED: [&str; 6] = ["lists", "plans", "true", "false", "null", "in"];

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

    pub(super) fn attributes(&mut self, node: &YamlNode<'_>) -> Vec<AttributeDefinition> {
        let entries =
            self.entries(node, "a mapping of names to expressions, as in { user: jwt.sub }");
        let mut attributes = Vec::new();
        for (name, node) in entries {
            let valid = self.check_attribute(&name);
            if let (true, Some((value, secret))) = (valid, self.attribute(&name, node)) {
                let name = name.map(str::to_owned);
                attributes.push(AttributeDefinition { name, value, secret });
            }
        }
        attributes
    }

    /// Reads an expression, alone or with its secrecy: `{ value: jwt.sub, secret: true }`. Without a
    /// value, the attribute is the one of that name which requests bring.
    fn attribute(
        &mut self,
        name: &Spanned<&str>,
        node: &YamlNode<'_>,
    ) -> Option<(Spanned<String>, Option<bool>)> {
        let what = "an expression such as jwt.sub";
        if !matches!(node.value, YamlValue::Map(_)) {
            return Some((self.owned(node, what)?, None));
        }
        let fields = self.fields(node, "an attribute", &["value", "secret"])?;
        let value = match fields.get("value") {
            Some(node) => self.owned(node, what)?,
            None => name.clone().map(str::to_owned),
        };
        let secret = fields.get("secret").and_then(|node| self.flag(node, "secret"));
        Some((value, secret))
    }

    fn check_attribute(&mut self, name: &Spanned<&str>) -> bool {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let goes_on = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let diagnostic = if !begins || !goes_on || name.len() > 64 {
            let message = format!("{} is no name for an attribute", excerpt(name.value));
            let diagnostic = Diagnostic::error("bad-name", name.span, message)
                .help("use up to 64 letters, digits and `_`, not a digit first");
            let plain: String =
                name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let meant = begins && name.len() <= 64 && !plain.is_empty();
            if meant { diagnostic.fix(plain) } else { diagnostic }
        } else if BUILT_IN.contains(&name.value) {
            let message = format!("{} is built in and cannot be defined", excerpt(name.value));
            Diagnostic::error("reserved-name", name.span, message)
                .help("choose another name, and use that in rules")
        } else if RESERVED.contains(&name.value) {
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
