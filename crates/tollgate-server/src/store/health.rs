//! How the store is, for whoever asks.

use jiff::Timestamp;
use serde_json::{Value, json};
use tollgate::rules::{OnError, Rules};
use tollgate::{Store, Time};
use tollgate_redis::ServerTrouble;

use super::AnyStore;

/// How the store is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// What is wrong, server by server.
    pub(crate) troubles: Vec<ServerTrouble>,
    /// How many servers of ours share it, this one included.
    pub(crate) nodes: u64,
    /// How many more than a limit may pass at the moment.
    pub(crate) overshoot_bound: u64,
}

impl AnyStore {
    pub(crate) fn health(&self) -> Health {
        match self {
            AnyStore::Memory(_) => Health { nodes: self.nodes(), ..Health::default() },
            AnyStore::Redis(shared) => Health {
                troubles: troubles(shared.store.health()),
                nodes: self.nodes(),
                overshoot_bound: shared.store.overshoot_bound(),
            },
        }
    }

    /// For `/readyz`, and for whoever shows it to people.
    pub(crate) fn to_json(&self) -> Value {
        let shared = match self {
            AnyStore::Memory(store) => {
                return json!({ "kind": "memory", "state": "well", "keys": store.len() });
            }
            AnyStore::Redis(shared) => shared,
        };
        let Health { troubles, nodes, overshoot_bound } = self.health();
        let mut body = json!({
            "kind": "redis",
            "at": shared.at,
            "state": "well",
            "nodes": nodes,
            "overshoot_bound": overshoot_bound,
        });
        if let Some(first) = troubles.iter().min_by_key(|trouble| trouble.since) {
            body["state"] = json!("resting");
            body["since"] = json!(text(first.since));
            body["error"] = json!(first.why);
            let server = |trouble: &ServerTrouble| {
                json!({
                    "server": trouble.server,
                    "since": text(trouble.since),
                    "error": trouble.why,
                })
            };
            body["servers"] = troubles.iter().map(server).collect();
        }
        body
    }
}

/// Every server in trouble, whichever group it is in.
pub(super) fn troubles(health: tollgate_redis::Health) -> Vec<ServerTrouble> {
    health.groups.into_iter().flat_map(|group| group.troubles).collect()
}

impl Health {
    pub(crate) fn is_well(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// What rules with limits do without their store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) allow: usize,
    pub(crate) deny: usize,
    pub(crate) local: usize,
    /// Domains in Envoy's format: who asks gets an error and decides for itself.
    pub(crate) envoy: usize,
}

impl Modes {
    pub(crate) fn of(rules: &Rules) -> Modes {
        let mut modes = Modes::default();
        let mut domains = rules.domain_names().count();
        let mut last = None;
        for rule in rules.iter() {
            if last != Some(rule.domain) {
                domains = domains.saturating_sub(1);
                last = Some(rule.domain);
            }
            if rule.limits.is_empty() {
                continue;
            }
            match rule.on_error {
                OnError::Allow => modes.allow += 1,
                OnError::Deny => modes.deny += 1,
                OnError::Local => modes.local += 1,
            }
        }
        modes.envoy = domains;
        modes
    }

    /// Whether nothing that is limited passes without the store.
    pub(crate) fn all_deny(&self) -> bool {
        self.deny > 0 && *self == Modes { deny: self.deny, ..Modes::default() }
    }
}

impl std::fmt::Display for Modes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut said = Vec::new();
        for (count, does, what) in [
            (self.allow, "let", "requests through (on_error: allow)"),
            (self.deny, "refuse", "requests (on_error: deny)"),
            (self.local, "enforce", "this node's share of the limit (on_error: local)"),
        ] {
            match count {
                0 => {}
                1 => said.push(format!("1 rule {does}s {what}")),
                many => said.push(format!("{many} rules {does} {what}")),
            }
        }
        if self.envoy > 0 {
            said.push("domains in Envoy's format answer with an error".into());
        }
        f.write_str(if said.is_empty() { "no rule needs it" } else { "" })?;
        f.write_str(&said.join(", "))
    }
}

fn text(time: Time) -> String {
    let time = Timestamp::from_nanosecond(i128::from(time.as_nanos()));
    time.map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(text: &str) -> Modes {
        Modes::of(&text.parse().unwrap())
    }

    #[test]
    fn only_where_nothing_passes_is_somebody_else_better() {
        let rule =
            |on_error: &str| format!("{{ name: {on_error}, limit: 1/s, on_error: {on_error} }}");
        let rules = |all: &[&str]| {
            let all: Vec<String> = all.iter().map(|on_error| rule(on_error)).collect();
            modes(&format!("rules: [{}, {{ name: free, then: allow }}]", all.join(", ")))
        };
        assert!(rules(&["deny"]).all_deny());
        assert!(!rules(&["deny", "local"]).all_deny());
        assert!(!rules(&["allow"]).all_deny());
        assert!(!modes("rules: [{ name: free, then: allow }]").all_deny());
        let envoy = modes("domain: mail\ndescriptors: [{ key: to }]");
        assert_eq!((envoy.envoy, envoy.all_deny()), (1, false));
        assert_eq!(
            rules(&["allow", "deny"]).to_string(),
            "1 rule lets requests through (on_error: allow), 1 rule refuses requests (on_error: deny)"
        );
        assert_eq!(modes("rules: [{ name: free, then: allow }]").to_string(), "no rule needs it");
    }
}
