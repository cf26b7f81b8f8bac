//! A cluster: 16,384 slots, each owned by one of its masters.
//!
//! The slot map may be out of date. A server that does not own a slot answers with its owner
//! (MOVED, or ASK during a migration) and executes nothing. The command then follows the slot, the
//! map is corrected, and a background task reloads the whole map.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::select;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::command_reply::CommandReply;
use super::connector::{Connector, query_once};
use super::server::{Outage, Server, ServerState};
use super::slots::{self, SLOTS, SlotRange};
use super::supervisor::{Discovery, ManagedServer, ServerSettings, jittered};
use crate::error::CallError;
use crate::options::Address;

/// The intervals at which the map is reloaded: while part of the cluster is missing, and otherwise.
const RELOAD_UNSETTLED: Duration = Duration::from_millis(100);
const RELOAD_SETTLED: Duration = Duration::from_secs(30);
const MAX_SERVERS: usize = 1024;
const UNASSIGNED: u16 = u16::MAX;

/// A cluster and its slot map.
#[derive(Debug)]
pub(super) struct Cluster {
    name: Arc<str>,
    map: ArcSwap<SlotMap>,
    /// All servers with connections, including those that own no slot yet.
    servers: Mutex<HashMap<Address, Arc<ManagedServer>>>,
    /// The error of loading the slot map, if the last attempt failed.
    outage: ArcSwap<Option<Outage>>,
    wakeup: Notify,
    next_server: AtomicUsize,
    seeds: Vec<Address>,
    connector: Connector,
    settings: ServerSettings,
    changes: watch::Sender<u64>,
}

/// The owner of every slot.
#[derive(Clone, Debug)]
struct SlotMap {
    /// For each slot, an index into `servers`.
    owners: Box<[u16]>,
    servers: Vec<Arc<ManagedServer>>,
}

impl SlotMap {
    fn empty() -> SlotMap {
        SlotMap { owners: vec![UNASSIGNED; usize::from(SLOTS)].into(), servers: Vec::new() }
    }

    fn owner(&self, slot: u16) -> Option<&Arc<ManagedServer>> {
        let owner = *self.owners.get(usize::from(slot))?;
        self.servers.get(usize::from(owner))
    }

    fn assign(&mut self, first: u16, last: u16, server: &Arc<ManagedServer>) {
        let known = self.servers.iter().position(|known| Arc::ptr_eq(known, server));
        let number = known.unwrap_or_else(|| {
            self.servers.push(server.clone());
            self.servers.len() - 1
        });
        server.slot.store(first, Ordering::Relaxed);
        self.owners[usize::from(first)..=usize::from(last)].fill(number as u16);
    }

    fn is_settled(&self) -> bool {
        self.owners.iter().all(|owner| *owner != UNASSIGNED)
            && self.servers.iter().all(|server| server.is_healthy())
    }
}

impl Cluster {
    pub(super) fn new(
        name: Arc<str>,
        seeds: Vec<Address>,
        connector: Connector,
        settings: ServerSettings,
        changes: watch::Sender<u64>,
    ) -> Cluster {
        Cluster {
            name,
            map: ArcSwap::from_pointee(SlotMap::empty()),
            servers: Mutex::default(),
            outage: ArcSwap::from_pointee(None),
            wakeup: Notify::new(),
            next_server: AtomicUsize::new(0),
            seeds,
            connector,
            settings,
            changes,
        }
    }

    /// Returns the server that owns a slot according to the map.
    pub(super) fn owner(&self, slot: u16) -> Result<Arc<ManagedServer>, CallError> {
        if let Some(server) = self.map.load().owner(slot) {
            return Ok(server.clone());
        }
        self.wakeup.notify_one();
        match &**self.outage.load() {
            Some(outage) => Err(CallError::ServerDown { cause: outage.cause.clone() }),
            None => Err(CallError::refused(&self.name, "CLUSTERDOWN no server owns the slot")),
        }
    }

    /// Returns the server at an address, and starts to connect to it when it is new.
    fn server(&self, address: &Address) -> Option<Arc<ManagedServer>> {
        let mut servers = self.servers.lock();
        if let Some(server) = servers.get(address) {
            return Some(server.clone());
        }
        if servers.len() >= MAX_SERVERS {
            return None;
        }
        let Connector { clock, timeout, .. } = &self.connector;
        let name = address.to_string().into();
        let server = Server::new(name, clock.clone(), *timeout, self.changes.clone());
        let discovery = Discovery::Fixed(address.clone());
        let server =
            ManagedServer::new(server, discovery, self.connector.clone(), self.settings.clone());
        servers.insert(address.clone(), server.clone());
        Some(server)
    }

    /// Returns the server that a redirect of `from` names, and whether the slot is still migrating.
    pub(super) fn follow_redirect(
        &self,
        slot: u16,
        from: &Server,
        reply: &CommandReply,
    ) -> Option<(Arc<ManagedServer>, bool)> {
        let (address, asking) = match reply {
            CommandReply::Moved(address) => (address, false),
            CommandReply::Ask(address) => (address, true),
            _ => return None,
        };
        let here = match &**from.state.load() {
            ServerState::Healthy { address, .. } => address.clone(),
            _ => self.seeds.first()?.clone(),
        };
        let server = self.server(&Address::from_redirect(address, &here)?)?;
        if !asking {
            self.map.rcu(|map| {
                let mut map = SlotMap::clone(map);
                map.assign(slot, slot, &server);
                map
            });
            self.wakeup.notify_one();
        }
        Some((server, asking))
    }

    /// Asks the background task to reload the map.
    pub(super) fn refresh_soon(&self) {
        self.wakeup.notify_one();
    }

    /// Returns the servers that own slots; empty if the map was never loaded.
    pub(super) fn servers(&self) -> Vec<Arc<ManagedServer>> {
        self.map.load().servers.clone()
    }

    /// Returns the error of loading the slot map, if the last attempt failed.
    pub(super) fn outage(&self) -> Option<Outage> {
        Option::clone(&self.outage.load())
    }

    /// Waits until the slot map is loaded, or could not be.
    pub(super) async fn wait_until_known(&self) {
        let known = |_: &u64| self.outage.load().is_some() || !self.map.load().servers.is_empty();
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self.changes.subscribe().wait_for(known).await;
    }

    /// Reloads the map at intervals and on request, until the task is aborted.
    pub(super) async fn maintain(self: Arc<Cluster>) {
        let mut changes = self.changes.subscribe();
        self.refresh().await;
        loop {
            let settled = self.outage.load().is_none() && self.map.load().is_settled();
            let pause = if settled { RELOAD_SETTLED } else { jittered(RELOAD_UNSETTLED) };
            let (wakeup, changed) = (pin!(self.wakeup.notified()), pin!(changes.changed()));
            let _ = timeout(pause, select(wakeup, changed)).await;
            self.refresh().await;
            // One reload at a time is enough, however many redirects arrive.
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Loads the map from a connected server, each in turn, or else from a seed.
    pub(super) async fn refresh(&self) {
        let mut error = None;
        let servers = self.servers();
        let next_server = self.next_server.fetch_add(1, Ordering::Relaxed);
        for i in 0..servers.len() {
            let server = &servers[(next_server + i) % servers.len()];
            if !server.is_healthy() {
                continue;
            }
            match self.load_ranges(server).await {
                Ok(ranges) => return self.apply_ranges(ranges),
                Err(reason) => error = Some(reason),
            }
        }
        for seed in &self.seeds {
            match query_once(&self.connector, seed, &slots_command()).await {
                Ok(answer) => match slots::ranges(&answer, seed) {
                    ranges if ranges.is_empty() => {
                        let reason = "CLUSTERDOWN it owns no slots";
                        error = Some(CallError::refused(&seed.to_string().into(), reason));
                    }
                    ranges => return self.apply_ranges(ranges),
                },
                Err(reason) => error = Some(reason),
            }
        }
        let cause = error.unwrap_or_else(|| CallError::unreachable(&self.name, "no address"));
        let since = self.outage().map_or_else(|| self.connector.clock.now(), |outage| outage.since);
        self.set_outage(Some(Outage { since, cause: Arc::new(cause) }));
    }

    async fn load_ranges(&self, server: &Server) -> Result<Vec<SlotRange>, CallError> {
        let until = Instant::now() + self.connector.timeout;
        let reply = CommandReply::from_value(server.send(&slots_command(), until).await?);
        let address = match &**server.state.load() {
            ServerState::Healthy { address, .. } => address.clone(),
            _ => return Err(server.closed_error()),
        };
        match reply {
            CommandReply::Done(answer) => match slots::ranges(&answer, &address) {
                ranges if ranges.is_empty() => {
                    Err(CallError::refused(&server.name, "CLUSTERDOWN it owns no slots"))
                }
                ranges => Ok(ranges),
            },
            other => Err(CallError::refused(&server.name, other.text())),
        }
    }

    fn apply_ranges(&self, ranges: Vec<SlotRange>) {
        let mut map = SlotMap::empty();
        for SlotRange { first, last, master } in ranges {
            if let Some(server) = self.server(&master) {
                map.assign(first, last, &server);
            }
        }
        let before = self.map.swap(Arc::new(map));
        if before.servers.is_empty() {
            self.changes.send_modify(|count| *count += 1);
        }
        drop(before);
        // Servers that own no slot and have no caller are dropped.
        self.servers.lock().retain(|_, server| Arc::strong_count(server) > 1);
        self.set_outage(None);
    }

    fn set_outage(&self, outage: Option<Outage>) {
        let is_down = outage.is_some();
        let before = self.outage.swap(Arc::new(outage));
        if before.is_some() != is_down {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

fn slots_command() -> redis::Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    command
}
