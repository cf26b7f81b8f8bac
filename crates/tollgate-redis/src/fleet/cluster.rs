//! A cluster: sixteen thousand slots, each kept by one of its masters.
//!
//! The map of slots is a belief. A server that is asked for a slot it does not keep says who does
//! (MOVED, or ASK while the slot is on its way), without executing anything: the command follows
//! the slot, the map is corrected, and a task in the background asks for all of it.

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

use super::dial::{Dialer, ask};
use super::keeper::{Finder, Kept, Wish, jittered};
use super::reply::Reply;
use super::server::{Condition, Resting, Server};
use super::slots::{self, Range, SLOTS};
use crate::options::Address;
use crate::trouble::Trouble;

/// How often the map is asked for while something is wrong with it, and when nothing is.
const UNSETTLED: Duration = Duration::from_millis(100);
const SETTLED: Duration = Duration::from_secs(30);
const MOST_SERVERS: usize = 1024;
const NOBODY: u16 = u16::MAX;

/// A cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    name: Arc<str>,
    map: ArcSwap<Map>,
    /// All servers we have connections to, also those that keep no slot yet.
    servers: Mutex<HashMap<Address, Arc<Kept>>>,
    /// Why nobody told us the slots, if so.
    lost: ArcSwap<Option<Resting>>,
    bell: Notify,
    turn: AtomicUsize,
    seeds: Vec<Address>,
    dialer: Dialer,
    wish: Wish,
    changes: watch::Sender<u64>,
}

/// Who keeps which slot.
#[derive(Clone, Debug)]
struct Map {
    /// For each slot a number in `servers`.
    owners: Box<[u16]>,
    servers: Vec<Arc<Kept>>,
}

impl Map {
    fn empty() -> Map {
        Map { owners: vec![NOBODY; usize::from(SLOTS)].into(), servers: Vec::new() }
    }

    fn owner(&self, slot: u16) -> Option<&Arc<Kept>> {
        let owner = *self.owners.get(usize::from(slot))?;
        self.servers.get(usize::from(owner))
    }

    fn give(&mut self, first: u16, last: u16, server: &Arc<Kept>) {
        let known = self.servers.iter().position(|known| Arc::ptr_eq(known, server));
        let number = known.unwrap_or_else(|| {
            self.servers.push(server.clone());
            self.servers.len() - 1
        });
        server.slot.store(first, Ordering::Relaxed);
        self.owners[usize::from(first)..=usize::from(last)].fill(number as u16);
    }

    fn is_settled(&self) -> bool {
        self.owners.iter().all(|owner| *owner != NOBODY)
            && self.servers.iter().all(|server| server.is_well())
    }
}

impl Cluster {
    pub(super) fn new(
        name: Arc<str>,
        seeds: Vec<Address>,
        dialer: Dialer,
        wish: Wish,
        changes: watch::Sender<u64>,
    ) -> Cluster {
        Cluster {
            name,
            map: ArcSwap::from_pointee(Map::empty()),
            servers: Mutex::default(),
            lost: ArcSwap::from_pointee(None),
            bell: Notify::new(),
            turn: AtomicUsize::new(0),
            seeds,
            dialer,
            wish,
            changes,
        }
    }

    /// The server that keeps a slot, as far as is known.
    pub(super) fn owner(&self, slot: u16) -> Result<Arc<Kept>, Trouble> {
        if let Some(server) = self.map.load().owner(slot) {
            return Ok(server.clone());
        }
        self.bell.notify_one();
        match &**self.lost.load() {
            Some(resting) => Err(Trouble::Resting { because: resting.because.clone() }),
            None => Err(Trouble::refused(&self.name, "CLUSTERDOWN nobody keeps the slot")),
        }
    }

    /// A server by its address; one that is new is connected to.
    fn server(&self, address: &Address) -> Option<Arc<Kept>> {
        let mut servers = self.servers.lock();
        if let Some(server) = servers.get(address) {
            return Some(server.clone());
        }
        if servers.len() >= MOST_SERVERS {
            return None;
        }
        let Dialer { clock, timeout, .. } = &self.dialer;
        let name = address.to_string().into();
        let server = Server::new(name, clock.clone(), *timeout, self.changes.clone());
        let finder = Finder::At(address.clone());
        let server = Kept::new(server, finder, self.dialer.clone(), self.wish.clone());
        servers.insert(address.clone(), server.clone());
        Some(server)
    }

    /// Where a reply of `from` sends us: the server, and whether the slot is still on its way.
    pub(super) fn follow(
        &self,
        slot: u16,
        from: &Server,
        reply: &Reply,
    ) -> Option<(Arc<Kept>, bool)> {
        let (address, asking) = match reply {
            Reply::Moved(address) => (address, false),
            Reply::Ask(address) => (address, true),
            _ => return None,
        };
        let here = match &**from.condition.load() {
            Condition::Well { address, .. } => address.clone(),
            _ => self.seeds.first()?.clone(),
        };
        let server = self.server(&Address::of_redirect(address, &here)?)?;
        if !asking {
            self.map.rcu(|map| {
                let mut map = Map::clone(map);
                map.give(slot, slot, &server);
                map
            });
            self.bell.notify_one();
        }
        Some((server, asking))
    }

    /// Something does not fit: the map is to be asked for.
    pub(super) fn doubt(&self) {
        self.bell.notify_one();
    }

    /// The servers that keep slots; none if nobody told us.
    pub(super) fn servers(&self) -> Vec<Arc<Kept>> {
        self.map.load().servers.clone()
    }

    /// Why nobody told us the slots.
    pub(super) fn lost(&self) -> Option<Resting> {
        Option::clone(&self.lost.load())
    }

    /// Waits until somebody told us the slots, or nobody could.
    pub(super) async fn met(&self) {
        let known = |_: &u64| self.lost.load().is_some() || !self.map.load().servers.is_empty();
        // Nobody is left to tell: then nobody asks either.
        let _ = self.changes.subscribe().wait_for(known).await;
    }

    /// Keeps the map, for ever.
    pub(super) async fn keep(self: Arc<Cluster>) {
        let mut changes = self.changes.subscribe();
        self.refresh().await;
        loop {
            let settled = self.lost.load().is_none() && self.map.load().is_settled();
            let pause = if settled { SETTLED } else { jittered(UNSETTLED) };
            let (bell, changed) = (pin!(self.bell.notified()), pin!(changes.changed()));
            let _ = timeout(pause, select(bell, changed)).await;
            self.refresh().await;
            // However many redirections there are, one question at a time is enough.
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asks for the map: servers we are connected to first, one after the other, then the seeds.
    pub(super) async fn refresh(&self) {
        let mut trouble = None;
        let servers = self.servers();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for i in 0..servers.len() {
            let server = &servers[(turn + i) % servers.len()];
            if !server.is_well() {
                continue;
            }
            match self.ask_server(server).await {
                Ok(ranges) => return self.adopt(ranges),
                Err(why) => trouble = Some(why),
            }
        }
        for seed in &self.seeds {
            match ask(&self.dialer, seed, &question()).await {
                Ok(answer) => match slots::ranges(&answer, seed) {
                    ranges if ranges.is_empty() => {
                        let why = "CLUSTERDOWN it keeps no slots";
                        trouble = Some(Trouble::refused(&seed.to_string().into(), why));
                    }
                    ranges => return self.adopt(ranges),
                },
                Err(why) => trouble = Some(why),
            }
        }
        let because = trouble.unwrap_or_else(|| Trouble::unreachable(&self.name, "no address"));
        let since = self.lost().map_or_else(|| self.dialer.clock.now(), |resting| resting.since);
        self.say_lost(Some(Resting { since, because: Arc::new(because) }));
    }

    async fn ask_server(&self, server: &Server) -> Result<Vec<Range>, Trouble> {
        let until = Instant::now() + self.dialer.timeout;
        let reply = Reply::of(server.send(&question(), until).await?);
        let address = match &**server.condition.load() {
            Condition::Well { address, .. } => address.clone(),
            _ => return Err(server.hung_up()),
        };
        match reply {
            Reply::Done(answer) => match slots::ranges(&answer, &address) {
                ranges if ranges.is_empty() => {
                    Err(Trouble::refused(&server.name, "CLUSTERDOWN it keeps no slots"))
                }
                ranges => Ok(ranges),
            },
            other => Err(Trouble::refused(&server.name, other.words())),
        }
    }

    fn adopt(&self, ranges: Vec<Range>) {
        let mut map = Map::empty();
        for Range { first, last, master } in ranges {
            if let Some(server) = self.server(&master) {
                map.give(first, last, &server);
            }
        }
        let before = self.map.swap(Arc::new(map));
        if before.servers.is_empty() {
            self.changes.send_modify(|count| *count += 1);
        }
        drop(before);
        // Servers that keep nothing, and that nobody is talking to, are let go.
        self.servers.lock().retain(|_, server| Arc::strong_count(server) > 1);
        self.say_lost(None);
    }

    fn say_lost(&self, lost: Option<Resting>) {
        let is_lost = lost.is_some();
        let before = self.lost.swap(Arc::new(lost));
        if before.is_some() != is_lost {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

fn question() -> redis::Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    command
}
