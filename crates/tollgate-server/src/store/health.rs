//! The health of the store, for `/readyz` and metrics.

use jiff::Timestamp;
use serde_json::{Value, json};
use tollgate::{Store, Time};
use tollgate_redis::ServerOutage;
use tollgate_rules::{Mode, OnError, Rules};

use super::AnyStore;

/// The health of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreHealth {
    /// The servers that are down.
    pub(crate) outages: Vec<ServerOutage>,
    /// The number of tollgate servers that share the store, including this one.
    pub(crate) nodes: u64,
    /// The maximum number of requests that may pass beyond a limit while the store answers.
    synced_bound: u64,
}

impl AnyStore {
    pub(crate) fn health(&self) -> StoreHealth {
        match self {
            AnyStore::Memory(_) => StoreHealth { nodes: self.nodes(), ..StoreHealth::default() },
            AnyStore::Redis(shared) => StoreHealth {
                outages: outages(shared.store.health()),
                nodes: self.nodes(),
                synced_bound: shared.store.overshoot_bound(),
            },
        }
    }

    /// Describes the store in the response of `/readyz`.
    pub(crate) fn to_json(&self, rules: &Rules) -> Value {
        let shared = match self {
            AnyStore::Memory(store) => {
                return json!({ "kind": "memory", "state": "well", "keys": store.len() });
            }
            AnyStore::Redis(shared) => shared,
        };
        let health = self.health();
        let overshoot_bound = health.overshoot_bound(rules);
        let StoreHealth { outages, nodes, .. } = health;
        let mut body = json!({
            "kind": "redis",
            "at": shared.address,
            "state": "well",
            "nodes": nodes,
            "overshoot_bound": overshoot_bound.map_or(json!("unbounded"), |bound| json!(bound)),
        });
        if let Some(first) = outages.iter().min_by_key(|outage| outage.since) {
            body["state"] = json!("resting");
            body["since"] = json!(text(first.since));
            body["error"] = json!(first.reason);
            let server = |outage: &ServerOutage| {
                json!({
                    "server": outage.server,
                    "since": text(outage.since),
                    "error": outage.reason,
                })
            };
            body["servers"] = outages.iter().map(server).collect();
        }
        body
    }
}

/// Returns the servers of all groups that are down.
pub(super) fn outages(health: tollgate_redis::Health) -> Vec<ServerOutage> {
    health.groups.into_iter().flat_map(|group| group.outages).collect()
}

impl StoreHealth {
    pub(crate) fn is_healthy(&self) -> bool {
        self.outages.is_empty()
    }

    /// Returns how many requests may currently pass beyond a limit; `None` if there is no bound,
    /// because a rule lets requests through while the store is down.
    pub(crate) fn overshoot_bound(&self, rules: &Rules) -> Option<u64> {
        if self.is_healthy() {
            return Some(self.synced_bound);
        }
        let extra = FailureModes::from_rules(rules).extra_without_store();
        extra.map(|extra| extra.saturating_add(self.synced_bound))
    }
}

/// The number of rules with limits by their failure mode (`on_error`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureModes {
    pub(crate) allow: usize,
    pub(crate) deny: usize,
    pub(crate) local: usize,
    /// The number of domains in Envoy's format: callers get an error and decide themselves.
    pub(crate) envoy: usize,
    /// The largest burst of the rules that enforce this node's share.
    pub(crate) local_burst: u64,
}

impl FailureModes {
    pub(crate) fn from_rules(rules: &Rules) -> FailureModes {
        let mut modes = FailureModes::default();
        let mut domains = rules.domain_names().count();
        let mut last = None;
        for rule in rules.iter() {
            if last != Some(rule.domain) {
                domains = domains.saturating_sub(1);
                last = Some(rule.domain);
            }
            if rule.limits.is_empty() || matches!(rule.mode, Mode::Off | Mode::Shadow) {
                continue;
            }
            match rule.on_error {
                OnError::Allow => modes.allow += 1,
                OnError::Deny => modes.deny += 1,
                OnError::Local => {
                    modes.local += 1;
                    modes.local_burst = modes.local_burst.max(rule.largest_burst);
                }
            }
        }
        modes.envoy = domains;
        modes
    }

    /// Returns how much more than a limit passes while the store is down; `None` if there is no
    /// bound.
    ///
    /// The nodes' shares of a limit start full whatever was spent before, so together they may
    /// admit one burst more.
    fn extra_without_store(&self) -> Option<u64> {
        (self.allow + self.envoy == 0).then_some(self.local_burst)
    }

    /// Returns whether every limited request is refused without the store.
    pub(crate) fn all_deny(&self) -> bool {
        self.deny > 0 && *self == FailureModes { deny: self.deny, ..FailureModes::default() }
    }
}

impl std::fmt::Display for FailureModes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        for (count, does, what) in [
            (self.allow, "let", "requests through (on_error: allow)"),
            (self.deny, "refuse", "requests (on_error: deny)"),
            (self.local, "enforce", "this node's share of the limit (on_error: local)"),
        ] {
            match count {
                0 => {}
                1 => parts.push(format!("1 rule {does}s {what}")),
                many => parts.push(format!("{many} rules {does} {what}")),
            }
        }
        if self.envoy > 0 {
            parts.push("domains in Envoy's format answer with an error".into());
        }
        f.write_str(if parts.is_empty() { "no rule needs it" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

fn text(time: Time) -> String {
    let time = Timestamp::from_nanosecond(i128::from(time.as_nanos()));
    time.map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(text: &str) -> FailureModes {
        FailureModes::from_rules(&text.parse().unwrap())
    }

    #[test]
    fn all_deny_requires_that_every_limited_rule_denies() {
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

    #[test]
    fn the_overshoot_bound_covers_every_failure_mode() {
        for (on_error, mode, extra) in [
            ("deny", "enforce", Some(0)),
            ("local", "enforce", Some(20)),
            ("allow", "enforce", None),
            ("allow", "shadow", Some(0)),
        ] {
            let rule = "name: a, limit: 10/s burst 20";
            let modes =
                modes(&format!("rules: [{{ {rule}, on_error: {on_error}, mode: {mode} }}]"));
            assert_eq!(modes.extra_without_store(), extra, "{on_error} {mode}");
        }
        let envoy = modes("domain: mail\ndescriptors: [{ key: to }]");
        assert_eq!(envoy.extra_without_store(), None, "callers decide");
    }
}
