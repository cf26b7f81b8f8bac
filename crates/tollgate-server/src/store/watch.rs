//! Watches how the store is, and says so once whenever that changes.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tollgate::Time;

use super::health::{Modes, Trouble};
use crate::engine::Engine;
use crate::net::Drain;

/// How often it looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Watches until the server closes.
pub(crate) async fn watch(engine: Engine, drain: Drain) {
    if engine.store().memory().is_some() {
        return;
    }
    let mut ticks = interval(BETWEEN_LOOKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = Seen::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let modes = || Modes::of(&engine.limiter().rules()).to_string();
                let without = engine.telemetry().without_store();
                let now = engine.clock().now();
                seen.look(&engine.store().health().troubles, without, now, modes);
            }
            () = drain.closing() => return,
        }
    }
}

/// What was said last.
#[derive(Debug, Default)]
struct Seen {
    /// Servers in trouble.
    servers: Vec<String>,
    /// When it began, and how many decisions had been made without the store by then.
    since: Option<(Time, u64)>,
    /// The same count when it was last looked at.
    before: u64,
}

impl Seen {
    fn look(&mut self, troubles: &[Trouble], without: u64, now: Time, modes: impl Fn() -> String) {
        for trouble in troubles {
            if !self.servers.contains(&trouble.server) {
                let (server, why, rules) = (&trouble.server, &trouble.why, modes());
                tracing::error!(
                    server,
                    "the store is in trouble: {why}; until it is well: {rules}"
                );
                // What failed before this look led to it.
                self.since.get_or_insert((trouble.since, self.before));
            }
        }
        let well = |server: &&String| troubles.iter().all(|trouble| trouble.server != **server);
        for server in self.servers.iter().filter(well) {
            tracing::info!(server, "a server of the store is well again");
        }
        self.servers = troubles.iter().map(|trouble| trouble.server.clone()).collect();
        self.before = without;
        if self.servers.is_empty()
            && let Some((since, before)) = self.since.take()
        {
            let took = Duration::from(now.since(since));
            let decisions = without.saturating_sub(before);
            tracing::info!(
                ?took,
                decisions,
                "the store is well again; so many decisions were made without it"
            );
        }
    }
}
