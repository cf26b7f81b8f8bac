//! Keeps a server connected: probes it while it is down, and replaces broken connections.

use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::smallvec;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tollgate::{Span, Time};

use super::connection::Connection;
use super::connector::{Connector, HealthCheck};
use super::function_call::ScriptMode;
use super::sentinel::Sentinels;
use super::server::{Outage, Server, ServerState};
use super::slots;
use crate::error::CallError;
use crate::options::Address;

/// The interval between probes of a server that is down.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// The interval at which a sentinel is asked whether a healthy master is still the master.
const SENTINEL_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum time between two connections, however often they break.
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);

/// The way to find the address of a server.
#[derive(Clone)]
pub(super) enum Discovery {
    Fixed(Address),
    Sentinel(Arc<Sentinels>),
}

/// A server with the task that keeps it connected. Dropping it ends the task.
#[derive(Debug)]
pub(super) struct ManagedServer {
    server: Arc<Server>,
    supervisor: AbortHandle,
}

impl Deref for ManagedServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for ManagedServer {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl ManagedServer {
    /// Starts the task that keeps a server connected.
    pub(super) fn new(
        server: Server,
        discovery: Discovery,
        connector: Connector,
        settings: ServerSettings,
    ) -> Arc<ManagedServer> {
        let server = Arc::new(server);
        let supervisor = Supervisor { server: server.clone(), discovery, connector, settings };
        let supervisor = tokio::spawn(supervisor.run()).abort_handle();
        Arc::new(ManagedServer { server, supervisor })
    }
}

/// The settings of every server.
#[derive(Clone, Debug)]
pub(super) struct ServerSettings {
    pub(super) connections: usize,
    pub(super) prefix: Arc<str>,
}

struct Supervisor {
    server: Arc<Server>,
    discovery: Discovery,
    connector: Connector,
    settings: ServerSettings,
}

impl Supervisor {
    async fn run(self) {
        let server = &*self.server;
        let mut backoff = RelapseBackoff::default();
        loop {
            let state = server.state.load_full();
            match &*state {
                ServerState::Healthy { address, connections } => {
                    let alive =
                        || connections.iter().filter(|connection| !connection.is_closed()).cloned();
                    if alive().next().is_none() {
                        server.mark_down_from(&state, server.closed_error());
                        sleep(CONNECT_INTERVAL).await;
                    } else if alive().count() < self.settings.connections {
                        self.add_connection(&state, address, alive().collect()).await;
                    } else {
                        self.watch(&state, address).await;
                    }
                }
                ServerState::Connecting => match self.probe(HealthCheck::default()).await {
                    Ok((address, connection)) => self.mark_healthy(&state, address, connection),
                    Err(error) => {
                        let since = server.clock.now();
                        self.stay_down(&state, since, error);
                    }
                },
                ServerState::Down(outage) => {
                    if let Some(pause) = backoff.pause(outage) {
                        sleep(jittered(pause)).await;
                    }
                    match self.probe(self.health_check(&outage.cause)).await {
                        Ok((address, connection)) => {
                            backoff.healthy_at = Some(server.clock.now());
                            self.mark_healthy(&state, address, connection);
                        }
                        Err(error) => {
                            self.stay_down(&state, outage.since, error);
                            sleep(jittered(PROBE_INTERVAL)).await;
                        }
                    }
                }
            }
        }
    }

    /// Waits for a change. A master may step down silently and accept writes for seconds before it
    /// learns of it, so a sentinel is asked at intervals.
    async fn watch(&self, state: &Arc<ServerState>, address: &Address) {
        let notified = self.server.wakeup.notified();
        match &self.discovery {
            Discovery::Fixed(_) => notified.await,
            Discovery::Sentinel(sentinels) => {
                if timeout(jittered(SENTINEL_INTERVAL), notified).await.is_err()
                    && sentinels.names_other_master(address).await
                {
                    let reason = "the sentinels name another master";
                    let moved = CallError::unreachable(&self.server.name, reason);
                    self.server.mark_down_from(state, moved);
                }
            }
        }
    }

    async fn add_connection(
        &self,
        state: &Arc<ServerState>,
        address: &Address,
        mut connections: smallvec::SmallVec<[Arc<Connection>; 2]>,
    ) {
        match self.connector.connect(address, &self.server.wakeup).await {
            Ok(connection) => {
                connections.push(Arc::new(connection));
                self.server
                    .change(state, ServerState::Healthy { address: address.clone(), connections });
                sleep(CONNECT_INTERVAL).await;
            }
            // The other connections stay in use: the server may have reached its connection limit.
            Err(error) => {
                tracing::debug!(%error, "cannot open a further connection");
                let _ = timeout(PROBE_INTERVAL, self.server.wakeup.notified()).await;
            }
        }
    }

    /// Finds the server and checks its health.
    async fn probe(&self, wanted: HealthCheck) -> Result<(Address, Connection), CallError> {
        let server = &*self.server;
        let (address, wanted) = match &self.discovery {
            Discovery::Fixed(address) => (address.clone(), wanted),
            Discovery::Sentinel(sentinels) => {
                (sentinels.master().await?, HealthCheck { master: true, ..wanted })
            }
        };
        let connection = self.connector.connect(&address, &server.wakeup).await?;
        self.connector
            .check_health(&connection, &address.to_string().into(), &wanted, &server.time)
            .await?;
        Ok((address, connection))
    }

    /// Returns the check for a server that went down with this error. After a refusal, the server
    /// must accept a write.
    fn health_check(&self, cause: &CallError) -> HealthCheck {
        let refused = matches!(cause, CallError::Refused { .. });
        HealthCheck { master: false, write: refused.then(|| self.key_to_write()) }
    }

    fn key_to_write(&self) -> String {
        let wanted = self.server.slot.load(Ordering::Relaxed);
        // Every slot has a number below about a hundred thousand.
        let mut tags = (0..1_000_000u32).map(|number| number.to_string());
        let tag = tags.find(|tag| slots::slot(tag.as_bytes()) == wanted).unwrap_or_default();
        format!("{}:{{{tag}}}probe", self.settings.prefix)
    }

    fn mark_healthy(&self, state: &Arc<ServerState>, address: Address, connection: Connection) {
        // Another server may have taken over the address.
        self.server.script_mode.store(ScriptMode::Unknown as u8, Ordering::Relaxed);
        let connections = smallvec![Arc::new(connection)];
        self.server.change(state, ServerState::Healthy { address, connections });
    }

    fn stay_down(&self, state: &Arc<ServerState>, since: Time, error: CallError) {
        let cause = Arc::new(error);
        self.server.change(state, ServerState::Down(Outage { since, cause }));
    }
}

/// Backs off from a server that passes probes and then fails again.
#[derive(Default)]
struct RelapseBackoff {
    healthy_at: Option<Time>,
    count: u32,
}

impl RelapseBackoff {
    /// Returns the pause before the next probe. Each relapse within a second of a successful probe
    /// doubles it; a broken connection is not a relapse.
    fn pause(&mut self, outage: &Outage) -> Option<Duration> {
        let healthy_at = self.healthy_at.take()?;
        let soon = outage.since.since(healthy_at) < Span::from_secs(1);
        if !soon || matches!(*outage.cause, CallError::Unreachable { .. }) {
            self.count = 0;
            return None;
        }
        self.count = (self.count + 1).min(4);
        Some(PROBE_INTERVAL * 2u32.pow(self.count - 1))
    }
}

/// Returns the duration, plus or minus a tenth, so that nodes do not connect at the same time.
pub(super) fn jittered(duration: Duration) -> Duration {
    let random = RandomState::new().hash_one(0u8) % 201;
    duration * (900 + random as u32) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_relapse_doubles_the_pause() {
        let server: Arc<str> = "cache:6379".into();
        let late = CallError::TimedOut { server: server.clone(), after: PROBE_INTERVAL };
        let broken = CallError::unreachable(&server, "it closed the connection");
        let outage = |ms: u64, cause: &CallError| Outage {
            since: Time::EPOCH + Span::from_millis(ms),
            cause: Arc::new(cause.clone()),
        };
        let mut backoff = RelapseBackoff::default();
        let mut pause = |healthy_ms: Option<u64>, outage: Outage| {
            if let Some(ms) = healthy_ms {
                backoff.healthy_at = Some(Time::EPOCH + Span::from_millis(ms));
            }
            backoff.pause(&outage).map(|pause| pause.as_millis())
        };
        assert_eq!(pause(None, outage(0, &late)), None);
        assert_eq!(pause(Some(0), outage(2_000, &late)), None);
        for expected in [100, 200, 400, 800, 800] {
            assert_eq!(pause(Some(10), outage(60, &late)), Some(expected));
            assert_eq!(pause(None, outage(60, &late)), None);
        }
        assert_eq!(pause(Some(10), outage(60, &broken)), None);
        assert_eq!(pause(Some(10), outage(60, &late)), Some(100));
    }
}
