//! The client: finds the server that holds a key, and calls functions there.
//!
//! Callers share connections, and calls made at the same time are written together. No call takes
//! longer than its time-out. When a server fails, it is marked down (`server.rs`): calls then fail
//! at once, and nothing is sent until its supervisor (`supervisor.rs`) finds it healthy again. So no
//! command is sent twice or late.

mod cluster;
mod command_reply;
mod connection;
mod connector;
mod function_call;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;
mod health;
mod rendezvous;
mod sentinel;
mod server;
mod server_group;
mod server_reply;
mod slots;
mod supervisor;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tollgate::{Clock, StoreError};

pub use health::{GroupHealth, Health, ServerOutage};
pub use server_reply::ServerReply;

use crate::ConnectError;
use crate::arguments::Arguments;
use crate::error::CallError;
use crate::function::ServerFunction;
use crate::options::Options;
use crate::server_clock::ServerClock;
use function_call::FunctionCall;
use rendezvous::Rendezvous;
use server_group::ServerGroup;

/// The group and slot that hold a key. Keys of one route are decided in one call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Route {
    pub(crate) group: u16,
    /// The cluster slot; 0 unless the group is a cluster.
    pub(crate) slot: u16,
}

/// A client of the servers behind a [`RedisStore`](crate::RedisStore). Clones share connections.
#[derive(Clone, Debug)]
pub struct RedisClient(Arc<ClientInner>);

#[derive(Debug)]
struct ClientInner {
    clock: Clock,
    groups: Vec<ServerGroup>,
    rendezvous: Rendezvous,
    prefix: Box<str>,
    timeout: Duration,
    changes: watch::Sender<u64>,
}

impl RedisClient {
    /// Connects. A server that is down is not an error: calls fail until its supervisor reaches it.
    /// Only errors that waiting cannot fix are returned.
    pub(crate) async fn open(options: &Options) -> Result<RedisClient, ConnectError> {
        options.check_credentials()?;
        let tls = read_tls(options)?;
        let clock = Clock::system();
        let changes = watch::Sender::new(0);
        let open = |group| ServerGroup::new(group, options, tls.as_ref(), &clock, &changes);
        let groups: Vec<ServerGroup> = options.groups.iter().map(open).collect();
        join_all(groups.iter().map(|group| group.wait_until_known(options.connect_timeout))).await;
        let rendezvous = Rendezvous::new(options.groups.iter().map(|group| group.name.as_str()));
        let (prefix, timeout) = (options.prefix.as_str().into(), options.timeout);
        let inner = ClientInner { clock, groups, rendezvous, prefix, timeout, changes };
        Ok(RedisClient(Arc::new(inner)))
    }

    /// Returns the prefix of all key names: [`Options::prefix`].
    pub fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// Calls a Lua function at the server that holds the keys with this tag, at most once.
    ///
    /// Every key must contain the tag in braces (`prefix:{tag}:name`), so that a cluster finds all
    /// keys on one server. The function is loaded when the server does not know it. A reply that
    /// does not arrive within `timeout` is an error, and the function may have run.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate_redis::{RedisStore, ServerFunction, ServerReply};
    ///
    /// # async fn example(store: RedisStore) -> Result<(), tollgate::StoreError> {
    /// let source = "local function bump(keys, args)\n\
    ///               return redis.call('INCRBY', keys[1], args[1])\n\
    ///               end\n";
    /// let (bump, client) = (ServerFunction::new("bump", source), store.client());
    /// let key = format!("{}:{{jobs}}:total", client.prefix());
    /// let second = Duration::from_secs(1);
    /// let total = client.call(&bump, b"jobs", &[key.as_bytes()], &[b"2"], second).await?;
    /// assert!(matches!(total, ServerReply::Int(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn call(
        &self,
        function: &ServerFunction,
        tag: &[u8],
        keys: &[&[u8]],
        args: &[&[u8]],
        timeout: Duration,
    ) -> Result<ServerReply, StoreError> {
        let (keys, args) = (Arguments::from_iter(keys), Arguments::from_iter(args));
        let value = self.run_within(timeout, self.route(tag), function, &keys, &args).await?;
        Ok(value.into())
    }

    /// Returns the route of the keys with this tag.
    pub(crate) fn route(&self, tag: &[u8]) -> Route {
        self.route_in(self.0.rendezvous.pick(tag), tag)
    }

    /// Returns the route of a tag in each of the groups.
    pub(crate) fn routes(&self, tag: &[u8]) -> impl Iterator<Item = Route> {
        (0..self.0.groups.len() as u16).map(move |group| self.route_in(group, tag))
    }

    fn route_in(&self, group: u16, tag: &[u8]) -> Route {
        let slot = if self.group(group).is_cluster() { slots::slot(tag) } else { 0 };
        Route { group, slot }
    }

    fn group(&self, number: u16) -> &ServerGroup {
        &self.0.groups[usize::from(number)]
    }

    /// Runs a function on a route, at most once and within the configured time-out.
    pub(crate) async fn run(
        &self,
        route: Route,
        function: &ServerFunction,
        keys: &Arguments,
        args: &Arguments,
    ) -> Result<redis::Value, CallError> {
        self.run_within(self.0.timeout, route, function, keys, args).await
    }

    async fn run_within(
        &self,
        timeout: Duration,
        route: Route,
        function: &ServerFunction,
        keys: &Arguments,
        args: &Arguments,
    ) -> Result<redis::Value, CallError> {
        let until = Instant::now() + timeout;
        let call = FunctionCall { function, keys, args };
        self.group(route.group).run(route.slot, &call, until).await
    }

    /// Returns the estimated clock of the server behind a route.
    pub(crate) fn clock(&self, route: Route) -> Arc<ServerClock> {
        self.group(route.group).clock(route.slot)
    }

    /// Returns the clock of this process, which [`clock`](RedisClient::clock) is relative to.
    pub(crate) fn local_clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The maximum duration of a call.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Returns the health of all servers.
    pub(crate) fn health(&self) -> Health {
        // The count is read first, so that `health_after` reports changes made while this runs.
        let changes = *self.0.changes.borrow();
        Health { groups: self.0.groups.iter().map(ServerGroup::health).collect(), changes }
    }

    /// Waits until the health differs from `before`, and returns it.
    pub(crate) async fn health_after(&self, before: &Health) -> Health {
        let changed = |changes: &u64| *changes != before.changes;
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self.0.changes.subscribe().wait_for(changed).await;
        self.health()
    }
}

/// Reads the TLS files, if any group uses TLS.
pub(crate) fn read_tls(options: &Options) -> Result<Option<TlsConnector>, ConnectError> {
    options.any_tls().then(|| tls::connector(&options.tls)).transpose()
}

#[cfg(test)]
mod tests;
