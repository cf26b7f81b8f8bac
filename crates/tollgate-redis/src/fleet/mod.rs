//! The servers: where a key lives, and how to get an answer from there.
//!
//! Callers share connections; what they ask at the same time travels together. Every call takes no
//! longer than the time-out. A server in trouble is left alone (`server.rs`), and somebody looks
//! after it (`keeper.rs`), so that calls fail at once and nothing is sent twice or late.

mod cluster;
mod dial;
mod group;
mod health;
mod keeper;
mod link;
mod rendezvous;
mod reply;
mod scripts;
mod sentinel;
mod server;
mod slots;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tollgate::Clock;

pub use health::{GroupHealth, Health, ServerTrouble};

use crate::ConnectError;
use crate::options::Options;
use crate::script::Script;
use crate::server_clock::ServerClock;
use crate::trouble::Trouble;
use crate::words::Words;
use group::Group;
use rendezvous::Rendezvous;
use scripts::Job;

/// Where a key lives: keys of the same place are decided in one call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) group: u16,
    /// Its slot; 0 unless the group is a cluster.
    pub(crate) slot: u16,
}

/// All the servers. Clones share connections.
#[derive(Clone, Debug)]
pub(crate) struct Fleet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    groups: Vec<Group>,
    rendezvous: Rendezvous,
    timeout: Duration,
    changes: watch::Sender<u64>,
}

impl Fleet {
    /// Connects. A server that is down is no error: it is looked for, and calls fail until it is
    /// there. What waiting cannot mend is.
    pub(crate) async fn open(options: &Options) -> Result<Fleet, ConnectError> {
        options.check_logins()?;
        let tls = read_tls(options)?;
        let clock = Clock::system();
        let changes = watch::Sender::new(0);
        let open = |group| Group::new(group, options, tls.as_ref(), &clock, &changes);
        let groups: Vec<Group> = options.groups.iter().map(open).collect();
        join_all(groups.iter().map(|group| group.met(options.connect_timeout))).await;
        let rendezvous = Rendezvous::new(options.groups.iter().map(|group| group.name.as_str()));
        let timeout = options.timeout;
        Ok(Fleet(Arc::new(Inner { clock, groups, rendezvous, timeout, changes })))
    }

    /// Where the keys with that tag live.
    pub(crate) fn place(&self, tag: &[u8]) -> Place {
        self.place_in(self.0.rendezvous.pick(tag), tag)
    }

    /// Where a tag lives in each of the groups.
    pub(crate) fn places(&self, tag: &[u8]) -> impl Iterator<Item = Place> {
        (0..self.0.groups.len() as u16).map(move |group| self.place_in(group, tag))
    }

    fn place_in(&self, group: u16, tag: &[u8]) -> Place {
        let slot = if self.group(group).is_cluster() { slots::slot(tag) } else { 0 };
        Place { group, slot }
    }

    fn group(&self, number: u16) -> &Group {
        &self.0.groups[usize::from(number)]
    }

    /// Runs a script there, at most once, and no later than the time-out.
    pub(crate) async fn run(
        &self,
        place: Place,
        script: &Script,
        keys: &Words,
        words: &Words,
    ) -> Result<redis::Value, Trouble> {
        self.run_within(self.0.timeout, place, script, keys, words).await
    }

    /// The same, no later than a time-out of its own.
    pub(crate) async fn run_within(
        &self,
        timeout: Duration,
        place: Place,
        script: &Script,
        keys: &Words,
        words: &Words,
    ) -> Result<redis::Value, Trouble> {
        let until = Instant::now() + timeout;
        self.group(place.group).run(place.slot, &Job { script, keys, words }, until).await
    }

    /// What time it is there.
    pub(crate) fn clock(&self, place: Place) -> Arc<ServerClock> {
        self.group(place.group).clock(place.slot)
    }

    /// What time it is here: what [`clock`](Fleet::clock) is compared to.
    pub(crate) fn clock_here(&self) -> &Clock {
        &self.0.clock
    }

    /// How long a call takes at most.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// How the servers are.
    pub(crate) fn health(&self) -> Health {
        // Counted first: what changes meanwhile is told to whoever asks what came after.
        let changes = *self.0.changes.borrow();
        Health { groups: self.0.groups.iter().map(Group::health).collect(), changes }
    }

    /// How they are once something has changed.
    pub(crate) async fn health_after(&self, before: &Health) -> Health {
        let changed = |changes: &u64| *changes != before.changes;
        // The sender is ours, so there is always somebody to tell.
        let _ = self.0.changes.subscribe().wait_for(changed).await;
        self.health()
    }
}

/// How to speak TLS, if any group does.
pub(crate) fn read_tls(options: &Options) -> Result<Option<TlsConnector>, ConnectError> {
    options.any_tls().then(|| tls::connector(&options.tls)).transpose()
}

#[cfg(test)]
mod tests;
