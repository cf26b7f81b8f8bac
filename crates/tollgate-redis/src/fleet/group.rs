//! A group of servers that keeps a share of the keys: one server, or a cluster.

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
use super::dial::Dialer;
use super::health::{GroupHealth, ServerTrouble};
use super::keeper::{Finder, Kept, Wish};
use super::reply::Reply;
use super::scripts::Job;
use super::sentinel::Sentinels;
use super::server::{Resting, Server};
use crate::options::{self, Kind, Options};
use crate::server_clock::ServerClock;
use crate::trouble::Trouble;

/// A command follows its slot this often; a cluster that sends it around more is confused.
const REDIRECTIONS: usize = 8;
/// How long to wait before asking again for a slot that is on its way.
const PAUSE: Duration = Duration::from_millis(3);
/// A cluster that misses nodes is asked this often.
const DOWN: usize = 3;

/// A group of servers.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
    kind: Members,
}

#[derive(Debug)]
enum Members {
    One(Arc<Kept>),
    Many { cluster: Arc<Cluster>, keeper: AbortHandle },
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Members::Many { keeper, .. } = &self.kind {
            keeper.abort();
        }
    }
}

impl Group {
    /// Starts to connect.
    pub(super) fn new(
        group: &options::Group,
        options: &Options,
        tls: Option<&TlsConnector>,
        clock: &Clock,
        changes: &watch::Sender<u64>,
    ) -> Group {
        let dialer = Dialer {
            login: group.login.clone(),
            db: group.db,
            tls: tls.filter(|_| group.tls).cloned(),
            connect_timeout: options.connect_timeout,
            timeout: options.timeout,
            clock: clock.clone(),
        };
        let wish =
            Wish { connections: options.connections, prefix: options.prefix.as_str().into() };
        let one = |name, finder| {
            let server = Server::new(name, clock.clone(), options.timeout, changes.clone());
            Members::One(Kept::new(server, finder, dialer.clone(), wish.clone()))
        };
        let kind = match &group.kind {
            Kind::Single(address) => one(address.to_string().into(), Finder::At(address.clone())),
            Kind::Sentinel { sentinels, master, login } => {
                let sentinels = Arc::new(Sentinels {
                    addresses: sentinels.clone(),
                    master: master.clone(),
                    dialer: Dialer { login: login.clone(), db: 0, ..dialer.clone() },
                    turn: AtomicUsize::new(0),
                });
                one(sentinels.name(), Finder::Master(sentinels))
            }
            Kind::Cluster { seeds } => {
                let name = group.name.as_str().into();
                let seeds = seeds.clone();
                let cluster = Cluster::new(name, seeds, dialer.clone(), wish, changes.clone());
                let cluster = Arc::new(cluster);
                let keeper = tokio::spawn(cluster.clone().keep()).abort_handle();
                Members::Many { cluster, keeper }
            }
        };
        Group { name: group.name.clone(), kind }
    }

    /// Waits until it is known how the servers are, but no longer than it may take to connect.
    pub(super) async fn met(&self, connect_timeout: Duration) {
        let met = async {
            match &self.kind {
                Members::One(server) => server.met().await,
                Members::Many { cluster, .. } => {
                    cluster.met().await;
                    join_all(cluster.servers().iter().map(|server| server.met())).await;
                }
            }
        };
        let _ = timeout(connect_timeout, met).await;
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.kind, Members::Many { .. })
    }

    /// The clock of the server that keeps a slot.
    pub(super) fn clock(&self, slot: u16) -> Arc<ServerClock> {
        match &self.kind {
            Members::One(server) => server.time.clone(),
            Members::Many { cluster, .. } => {
                cluster.owner(slot).map(|server| server.time.clone()).unwrap_or_default()
            }
        }
    }

    pub(super) async fn run(
        &self,
        slot: u16,
        job: &Job<'_>,
        until: Instant,
    ) -> Result<redis::Value, Trouble> {
        match &self.kind {
            Members::One(server) => match job.run(server, false, until).await? {
                Reply::Done(value) => Ok(value),
                other => Err(Trouble::refused(&server.name, other.words())),
            },
            Members::Many { cluster, .. } => {
                let outcome = run_in_cluster(cluster, slot, job, until).await;
                outcome.inspect_err(|_| cluster.doubt())
            }
        }
    }

    pub(super) fn health(&self) -> GroupHealth {
        let in_trouble = |server: &Arc<Kept>| {
            server.resting().map(|resting| trouble(server.name.to_string(), resting))
        };
        let troubles = match &self.kind {
            Members::One(server) => in_trouble(server).into_iter().collect(),
            Members::Many { cluster, .. } => match cluster.lost() {
                Some(lost) => vec![trouble(self.name.clone(), lost)],
                None => cluster.servers().iter().filter_map(in_trouble).collect(),
            },
        };
        GroupHealth { name: self.name.clone(), troubles }
    }
}

fn trouble(server: String, Resting { since, because }: Resting) -> ServerTrouble {
    ServerTrouble { server, since, kind: because.kind(), why: because.to_string() }
}

/// Follows the slot until somebody executes the job. Every reply that leads on proves that nobody
/// has.
async fn run_in_cluster(
    cluster: &Cluster,
    slot: u16,
    job: &Job<'_>,
    until: Instant,
) -> Result<redis::Value, Trouble> {
    let (mut server, mut asking) = (cluster.owner(slot)?, false);
    let (mut redirections, mut down) = (0, 0);
    loop {
        let reply = job.run(&server, asking, until).await?;
        let next = match &reply {
            Reply::Moved(_) | Reply::Ask(_) if redirections < REDIRECTIONS => {
                redirections += 1;
                cluster.follow(slot, &server, &reply)
            }
            Reply::TryAgain(_) if Instant::now() + PAUSE < until => {
                sleep(PAUSE).await;
                Some((server.clone(), asking))
            }
            Reply::ClusterDown(_) if down < DOWN && Instant::now() + PAUSE < until => {
                down += 1;
                cluster.doubt();
                sleep(PAUSE).await;
                Some((cluster.owner(slot)?, false))
            }
            _ => None,
        };
        match (next, reply) {
            (Some(next), _) => (server, asking) = next,
            (None, Reply::Done(value)) => return Ok(value),
            (None, other) => {
                if let Reply::ClusterDown(why) = &other {
                    server.was_unwilling(why);
                }
                return Err(Trouble::refused(&server.name, other.words()));
            }
        }
    }
}
