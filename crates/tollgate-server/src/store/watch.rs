//! Watches how the store is, and says so once whenever that changes.

use std::time::Duration;

use tollgate_redis::ServerTrouble;

use super::AnyStore;
use super::health::{Modes, troubles};
use crate::clock;
use crate::engine::Engine;
use crate::net::Drain;

/// Watches until the server closes.
pub(crate) async fn watch(engine: Engine, drain: Drain) {
    let AnyStore::Redis(shared) = engine.store() else { return };
    let mut said = Said::default();
    let mut health = shared.store.health();
    loop {
        let modes = Modes::of(&engine.limiter().rules());
        said.look(troubles(health.clone()), engine.telemetry().without_store(), &modes);
        health = tokio::select! {
            health = shared.store.health_after(&health) => health,
            () = drain.closing() => return,
        };
    }
}

/// What was said last.
#[derive(Debug, Default)]
struct Said {
    /// Servers in trouble.
    servers: Vec<String>,
    /// When that began, in milliseconds of this process, and how many decisions had been made
    /// without the store by then.
    since: Option<(u64, u64)>,
    /// Decisions without the store when all was well.
    before: u64,
}

impl Said {
    fn look(&mut self, troubles: Vec<ServerTrouble>, without_store: u64, modes: &Modes) {
        let known = std::mem::take(&mut self.servers);
        for ServerTrouble { server, why, .. } in
            troubles.iter().filter(|trouble| !known.contains(&trouble.server))
        {
            self.since.get_or_insert_with(|| (clock::monotonic_ms(), self.before));
            tracing::error!(server, "the store is in trouble: {why}; until it is well, {modes}");
        }
        self.servers = troubles.into_iter().map(|trouble| trouble.server).collect();
        if !self.servers.is_empty() {
            for server in known.iter().filter(|server| !self.servers.contains(server)) {
                tracing::info!(server, "a server of the store is well again, others are not yet");
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
                "the store is well again; so many decisions were made without it"
            );
        }
    }
}
