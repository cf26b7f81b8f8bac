//! A group of servers that holds a share of the keys: one server, or a cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tollgate::Clock;

use super::cluster::Cluster;
use super::command_reply::CommandReply;
use super::connector::Connector;
use super::function_call::FunctionCall;
use super::health::{GroupHealth, ServerOutage};
use super::sentinel::Sentinels;
use super::server::{Outage, Server};
use super::supervisor::{Discovery, ManagedServer, ServerSettings};
use crate::error::CallError;
use crate::options::{self, Options, Topology};
use crate::server_clock::ServerClock;

/// The maximum number of redirects of a call. More mean that the cluster contradicts itself.
const MAX_REDIRECTS: usize = 8;
/// The pause before a call to a migrating slot is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(3);
/// The maximum number of attempts while a cluster reports that it is down.
const MAX_DOWN_REPLIES: usize = 3;

/// A group of servers.
#[derive(Debug)]
pub(super) struct ServerGroup {
    name: String,
    members: Members,
}

#[derive(Debug)]
enum Members {
    Single(Arc<ManagedServer>),
    Cluster { cluster: Arc<Cluster>, task: AbortHandle },
}

impl Drop for ServerGroup {
    fn drop(&mut self) {
        if let Members::Cluster { task, .. } = &self.members {
            task.abort();
        }
    }
}

impl ServerGroup {
    /// Starts to connect.
    pub(super) fn new(
        group: &options::GroupOptions,
        options: &Options,
        tls: Option<&TlsConnector>,
        clock: &Clock,
        changes: &watch::Sender<u64>,
    ) -> ServerGroup {
        let connector = Connector {
            credentials: group.credentials.clone(),
            db: group.db,
            tls: tls.filter(|_| group.tls).cloned(),
            connect_timeout: options.connect_timeout,
            timeout: options.timeout,
            clock: clock.clone(),
        };
        let settings = ServerSettings {
            connections: options.connections,
            prefix: options.prefix.as_str().into(),
        };
        let one = |name, discovery| {
            let server = Server::new(name, clock.clone(), options.timeout, changes.clone());
            Members::Single(ManagedServer::new(
                server,
                discovery,
                connector.clone(),
                settings.clone(),
            ))
        };
        let members = match &group.topology {
            Topology::Single(address) => {
                one(address.to_string().into(), Discovery::Fixed(address.clone()))
            }
            Topology::Sentinel { sentinels, master, credentials } => {
                let sentinels = Arc::new(Sentinels {
                    addresses: sentinels.clone(),
                    master: master.clone(),
                    connector: Connector {
                        credentials: credentials.clone(),
                        db: 0,
                        ..connector.clone()
                    },
                    next_sentinel: AtomicUsize::new(0),
                });
                one(sentinels.name(), Discovery::Sentinel(sentinels))
            }
            Topology::Cluster { seeds } => {
                let name = group.name.as_str().into();
                let seeds = seeds.clone();
                let cluster =
                    Cluster::new(name, seeds, connector.clone(), settings, changes.clone());
                let cluster = Arc::new(cluster);
                let task = tokio::spawn(cluster.clone().maintain()).abort_handle();
                Members::Cluster { cluster, task }
            }
        };
        ServerGroup { name: group.name.clone(), members }
    }

    /// Waits until the state of all servers is known, for at most `connect_timeout`.
    pub(super) async fn wait_until_known(&self, connect_timeout: Duration) {
        let wait_until_known = async {
            match &self.members {
                Members::Single(server) => server.wait_until_known().await,
                Members::Cluster { cluster, .. } => {
                    cluster.wait_until_known().await;
                    join_all(cluster.servers().iter().map(|server| server.wait_until_known()))
                        .await;
                }
            }
        };
        let _ = timeout(connect_timeout, wait_until_known).await;
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.members, Members::Cluster { .. })
    }

    /// Returns the clock of the server that owns a slot.
    pub(super) fn clock(&self, slot: u16) -> Arc<ServerClock> {
        match &self.members {
            Members::Single(server) => server.time.clone(),
            Members::Cluster { cluster, .. } => {
                cluster.owner(slot).map(|server| server.time.clone()).unwrap_or_default()
            }
        }
    }

    pub(super) async fn run(
        &self,
        slot: u16,
        call: &FunctionCall<'_>,
        until: Instant,
    ) -> Result<redis::Value, CallError> {
        match &self.members {
            Members::Single(server) => match call.run(server, false, until).await? {
                CommandReply::Done(value) => Ok(value),
                other => Err(CallError::refused(&server.name, other.text())),
            },
            Members::Cluster { cluster, .. } => {
                let outcome = run_in_cluster(cluster, slot, call, until).await;
                outcome.inspect_err(|_| cluster.refresh_soon())
            }
        }
    }

    pub(super) fn health(&self) -> GroupHealth {
        let in_trouble = |server: &Arc<ManagedServer>| {
            server.outage().map(|outage| error(server.name.to_string(), outage))
        };
        let outages = match &self.members {
            Members::Single(server) => in_trouble(server).into_iter().collect(),
            Members::Cluster { cluster, .. } => match cluster.outage() {
                Some(outage) => vec![error(self.name.clone(), outage)],
                None => cluster.servers().iter().filter_map(in_trouble).collect(),
            },
        };
        GroupHealth { name: self.name.clone(), outages }
    }
}

fn error(server: String, Outage { since, cause }: Outage) -> ServerOutage {
    ServerOutage { server, since, kind: cause.kind(), reason: cause.to_string() }
}

/// Follows the slot until a server executes the call. Every reply that leads to another attempt
/// proves that the call was not executed.
async fn run_in_cluster(
    cluster: &Cluster,
    slot: u16,
    call: &FunctionCall<'_>,
    until: Instant,
) -> Result<redis::Value, CallError> {
    let (mut server, mut asking) = (cluster.owner(slot)?, false);
    let (mut redirects, mut down) = (0, 0);
    loop {
        let reply = call.run(&server, asking, until).await?;
        let next = match &reply {
            CommandReply::Moved(_) | CommandReply::Ask(_) if redirects < MAX_REDIRECTS => {
                redirects += 1;
                cluster.follow_redirect(slot, &server, &reply)
            }
            CommandReply::TryAgain(_) if Instant::now() + RETRY_PAUSE < until => {
                sleep(RETRY_PAUSE).await;
                Some((server.clone(), asking))
            }
            CommandReply::ClusterDown(_)
                if down < MAX_DOWN_REPLIES && Instant::now() + RETRY_PAUSE < until =>
            {
                down += 1;
                cluster.refresh_soon();
                sleep(RETRY_PAUSE).await;
                Some((cluster.owner(slot)?, false))
            }
            _ => None,
        };
        match (next, reply) {
            (Some(next), _) => (server, asking) = next,
            (None, CommandReply::Done(value)) => return Ok(value),
            (None, other) => {
                if let CommandReply::ClusterDown(reason) = &other {
                    server.record_refused_write(reason);
                }
                return Err(CallError::refused(&server.name, other.text()));
            }
        }
    }
}
