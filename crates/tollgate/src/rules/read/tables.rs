//! What rules refer to by name: proxies, attributes, lists, plans.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Reader;
use super::scalar::shown;
use crate::rules::attribute::BUILT_IN;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::source::At;
use crate::rules::written::{List, Plan};
use crate::rules::yaml::{MAX_NODES, Node, Value};

/// Words of the expression language: no attribute can have their name.
const RESERVED: [&str; 6] = ["lists", "plans", "true", "false", "null", "in"];

/// The most limits one rule has, or one limit of a plan.
pub(super) const MAX_LIMITS: usize = 16;

impl Reader<'_> {
    pub(super) fn proxies(&mut self, node: &Node<'_>) -> Vec<At<IpNet>> {
        let nodes =
            self.list(node, "a list of addresses and networks, as in [10.0.0.0/8]", MAX_NODES);
        self.each(nodes, Self::network)
    }

    /// A network, or one address as a network of itself.
    fn network(&mut self, node: &Node<'_>) -> Option<At<IpNet>> {
        let text = self.text(node, "an address or a network such as 10.0.0.0/8")?;
        let written = text.trim();
        let alone = || written.parse::<IpAddr>().map(IpNet::from);
        let Ok(network) = written.parse::<IpNet>().or_else(|_| alone()) else {
            let message = format!("{} is no address and no network", shown(written));
            let found = Diagnostic::error("bad-address", node.place, message);
            self.found.push(found.help(
                "write an address such as 192.0.2.7, or a network such as 10.0.0.0/8 or 2001:db8::/32",
            ));
            return None;
        };
        let trunk = network.trunc();
        if trunk != network {
            let message = format!("{} is an address inside {trunk}", network.addr());
            let found = Diagnostic::error("bad-address", node.place, message);
            self.found.push(found.label("bits after the prefix are set").fix(trunk.to_string()));
            return None;
        }
        Some(At::new(network, node.place))
    }

    pub(super) fn attributes(&mut self, node: &Node<'_>) -> Vec<(At<String>, At<String>)> {
        let entries = self
            .entries(node, "a mapping of names to expressions, as in { org: header[\"x-org\"] }");
        let mut attributes = Vec::new();
        for (name, node) in entries {
            let good = self.check_attribute(&name);
            let expression = self.owned(node, "an expression such as jwt.sub");
            if let (true, Some(expression)) = (good, expression) {
                attributes.push((name.map(str::to_owned), expression));
            }
        }
        attributes
    }

    fn check_attribute(&mut self, name: &At<&str>) -> bool {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let goes_on = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let found = if !begins || !goes_on || name.len() > 64 {
            let message = format!("{} is no name for an attribute", shown(name.value));
            let found = Diagnostic::error("bad-name", name.place, message)
                .help("use up to 64 letters, digits and `_`, not a digit first");
            let plain: String =
                name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let meant = begins && name.len() <= 64 && !plain.is_empty();
            if meant { found.fix(plain) } else { found }
        } else if BUILT_IN.contains(&name.value) {
            let message = format!("{} is built in and cannot be defined", shown(name.value));
            Diagnostic::error("reserved-name", name.place, message)
                .help("choose another name, and use that in rules")
        } else if RESERVED.contains(&name.value) {
            let message = format!("{} is a word of the language", shown(name.value));
            Diagnostic::error("reserved-name", name.place, message).help("choose another name")
        } else {
            return true;
        };
        self.found.push(found);
        false
    }

    pub(super) fn lists(&mut self, node: &Node<'_>) -> Vec<List> {
        let what = "a mapping of names to lists, as in { office: [203.0.113.0/24] }";
        let mut lists = Vec::new();
        for (name, node) in self.entries(node, what) {
            let good = self.check_name(&name, "a list");
            let nodes = self.list(node, "a list of addresses, names and patterns", MAX_NODES);
            let what = "an address, a name or a pattern";
            let entries = self.each(nodes, |reader, node| reader.owned(node, what));
            if good {
                lists.push(List { name: name.map(str::to_owned), entries });
            }
        }
        lists
    }

    pub(super) fn plans(&mut self, node: &Node<'_>) -> Vec<Plan> {
        let what = "a mapping of names to plans, as in { free: { api: 60/h } }";
        let mut plans = Vec::new();
        for (name, node) in self.entries(node, what) {
            let good = self.check_name(&name, "a plan");
            let mut limits = Vec::new();
            for (limit_name, node) in
                self.entries(node, "a mapping of names to limits, as in { api: 60/h }")
            {
                let good = self.check_name(&limit_name, "a limit");
                let several = self.plan_limits(node);
                if good {
                    limits.push((limit_name.map(str::to_owned), several));
                }
            }
            if good {
                plans.push(Plan { name: name.map(str::to_owned), limits });
            }
        }
        plans
    }

    /// Limits that are written out: a plan cannot refer to a plan.
    pub(super) fn plan_limits(&mut self, node: &Node<'_>) -> Vec<At<crate::Limit>> {
        if matches!(node.value, Value::Map(_)) {
            return self.plain_limit(node).into_iter().collect();
        }
        let nodes = self.several(node, "a limit", MAX_LIMITS);
        nodes.iter().filter_map(|node| self.plain_limit(node)).collect()
    }
}
