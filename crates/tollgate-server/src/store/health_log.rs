//! Logs changes of the store's health, each change once.

use std::time::Duration;

use tollgate_redis::ServerOutage;

use super::AnyStore;
use super::health::{FailureModes, outages};
use crate::background::{self, BackgroundWorker};
use crate::clock;
use crate::decisions::DecisionService;
use crate::net::Drain;

/// Logs changes of the store's health until the server closes.
pub(crate) async fn log_health_changes(decisions: DecisionService, drain: Drain) {
    let AnyStore::Redis(shared) = decisions.store() else { return };
    let mut log = HealthLog::default();
    let mut health = shared.store.health();
    loop {
        background::panic_point(BackgroundWorker::StoreHealth);
        let modes = FailureModes::from_rules(&decisions.limiter().rules());
        log.update(outages(health.clone()), decisions.telemetry().without_store(), &modes);
        health = tokio::select! {
            health = shared.store.health_after(&health) => health,
            () = drain.closing() => return,
        };
    }
}

/// The state that was logged last.
#[derive(Debug, Default)]
struct HealthLog {
    /// The servers that are down.
    servers: Vec<String>,
    /// The beginning of the outage in monotonic milliseconds, and the decisions made without the
    /// store until then.
    since: Option<(u64, u64)>,
    /// The decisions made without the store until it was last healthy.
    before: u64,
}

impl HealthLog {
    fn update(&mut self, outages: Vec<ServerOutage>, without_store: u64, modes: &FailureModes) {
        let known = std::mem::take(&mut self.servers);
        for ServerOutage { server, reason, .. } in
            outages.iter().filter(|outage| !known.contains(&outage.server))
        {
            self.since.get_or_insert_with(|| (clock::monotonic_ms(), self.before));
            tracing::error!(
                server,
                "a server of the store is down: {reason}; until it recovers, {modes}"
            );
        }
        self.servers = outages.into_iter().map(|outage| outage.server).collect();
        if !self.servers.is_empty() {
            for server in known.iter().filter(|server| !self.servers.contains(server)) {
                tracing::info!(server, "a server of the store has recovered, others have not yet");
            }
            return;
        }
        self.before = without_store;
        if let Some((since_ms, before)) = self.since.take() {
            let after = Duration::from_millis(clock::monotonic_ms() - since_ms);
            let decisions = without_store.saturating_sub(before);
            tracing::info!(
                ?after,
                decisions,
                "the store has recovered; `decisions` were made without it"
            );
        }
    }
}
