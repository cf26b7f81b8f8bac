//! One server: its connections and its state.
//!
//! When a server fails, it is *down*: its connections are closed, calls fail at once, and nothing
//! is sent until `supervisor.rs` finds it healthy again. No command is queued to be sent later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::{Cmd, Pipeline, RedisError, Value};
use smallvec::SmallVec;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};
use tollgate::{Clock, Time};

use super::connection::Connection;
use super::function_call::ScriptMode;
use crate::error::CallError;
use crate::options::Address;
use crate::server_clock::ServerClock;

/// After this many refused writes in a row, a server that still answers is marked down.
const MAX_REFUSED_WRITES: u32 = 3;

/// A server, or the current master of a sentinel group.
#[derive(Debug)]
pub(super) struct Server {
    /// The name in messages.
    pub(super) name: Arc<str>,
    pub(super) state: ArcSwap<ServerState>,
    /// The estimated clock of the server.
    pub(super) time: Arc<ServerClock>,
    /// The clock of this process.
    pub(super) clock: Clock,
    pub(super) timeout: Duration,
    /// Notified when a connection breaks or the server is marked down.
    pub(super) wakeup: Arc<Notify>,
    /// Counts state changes of all servers.
    pub(super) changes: watch::Sender<u64>,
    /// The way in which it runs functions: a `ScriptMode`.
    pub(super) script_mode: AtomicU8,
    /// A slot that it owns, in a cluster.
    pub(super) slot: AtomicU16,
    replies: AtomicU64,
    refused_writes: AtomicU32,
    next_connection: AtomicUsize,
}

/// The state of a server.
#[derive(Debug)]
pub(super) enum ServerState {
    /// Not known yet: the first connection is being opened.
    Connecting,
    Healthy {
        address: Address,
        connections: SmallVec<[Arc<Connection>; 2]>,
    },
    Down(Outage),
}

/// The reason why a server is down.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub(super) since: Time,
    pub(super) cause: Arc<CallError>,
}

impl Server {
    pub(super) fn new(
        name: Arc<str>,
        clock: Clock,
        timeout: Duration,
        changes: watch::Sender<u64>,
    ) -> Server {
        Server {
            name,
            state: ArcSwap::from_pointee(ServerState::Connecting),
            time: Arc::default(),
            clock,
            timeout,
            wakeup: Arc::default(),
            changes,
            script_mode: AtomicU8::new(ScriptMode::Unknown as u8),
            slot: AtomicU16::new(0),
            replies: AtomicU64::new(0),
            refused_writes: AtomicU32::new(0),
            next_connection: AtomicUsize::new(0),
        }
    }

    /// Sends a command.
    pub(super) async fn send(&self, command: &Cmd, until: Instant) -> Result<Value, CallError> {
        self.exchange(until, |connection| async move { connection.send(command).await }).await
    }

    /// Sends commands together, with no other caller's between them.
    pub(super) async fn send_all(
        &self,
        commands: &Pipeline,
        until: Instant,
    ) -> Result<Vec<Value>, CallError> {
        self.exchange(until, |connection| async move { connection.send_all(commands).await }).await
    }

    async fn exchange<T, F>(
        &self,
        until: Instant,
        send: impl FnOnce(Arc<Connection>) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let state = self.known_state(until).await?;
        let connection = self.pick(&state)?;
        let (replies, connection_replies) =
            (self.replies.load(Ordering::Relaxed), connection.replies());
        let mut answer = std::pin::pin!(send(connection.clone()));
        let mut outcome = timeout_at(until, &mut answer).await;
        if outcome.is_err() {
            // On a busy machine the reply may have arrived without this task having run since.
            tokio::task::yield_now().await;
            outcome = timeout_at(until, &mut answer).await;
        }
        match outcome {
            Ok(Ok(answer)) => {
                self.replies.fetch_add(1, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(error)) => {
                connection.close();
                self.wakeup.notify_one();
                // If the server is already marked down, that error explains more.
                match &**self.state.load() {
                    ServerState::Down(outage) => Err((*outage.cause).clone()),
                    _ => Err(CallError::unreachable(&self.name, error)),
                }
            }
            Err(_) => {
                let error = CallError::TimedOut { server: self.name.clone(), after: self.timeout };
                if self.replies.load(Ordering::Relaxed) == replies {
                    self.mark_down_if_used(connection, error.clone());
                } else if connection.replies() == connection_replies {
                    // The server answers other connections, so only this one is broken.
                    connection.close();
                    self.wakeup.notify_one();
                }
                Err(error)
            }
        }
    }

    /// Returns the state. While the first connection is being opened, waits for it.
    async fn known_state(&self, until: Instant) -> Result<Arc<ServerState>, CallError> {
        let state = self.state.load_full();
        if !matches!(*state, ServerState::Connecting) {
            return Ok(state);
        }
        let late = |_| CallError::TimedOut { server: self.name.clone(), after: self.timeout };
        timeout_at(until, self.wait_until_known()).await.map_err(late)?;
        Ok(self.state.load_full())
    }

    fn pick<'a>(&self, state: &'a Arc<ServerState>) -> Result<&'a Arc<Connection>, CallError> {
        match &**state {
            ServerState::Healthy { connections, .. } => {
                let next_connection = self.next_connection.fetch_add(1, Ordering::Relaxed);
                let mut from_here = (0..connections.len())
                    .map(|i| &connections[(next_connection + i) % connections.len()]);
                from_here.find(|connection| !connection.is_closed()).ok_or_else(|| {
                    self.mark_down_from(state, self.closed_error());
                    CallError::ServerDown { cause: Arc::new(self.closed_error()) }
                })
            }
            ServerState::Down(outage) => Err(CallError::ServerDown { cause: outage.cause.clone() }),
            ServerState::Connecting => Err(CallError::unreachable(&self.name, "not connected yet")),
        }
    }

    /// Returns the error of a server that closed its connections.
    pub(super) fn closed_error(&self) -> CallError {
        CallError::unreachable(&self.name, "it closed the connection")
    }

    pub(super) fn is_healthy(&self) -> bool {
        matches!(**self.state.load(), ServerState::Healthy { .. })
    }

    /// Returns the reason why the server is down, if it is.
    pub(super) fn outage(&self) -> Option<Outage> {
        match &**self.state.load() {
            ServerState::Down(outage) => Some(outage.clone()),
            _ => None,
        }
    }

    /// Waits until the first connection is open or has failed.
    pub(super) async fn wait_until_known(&self) {
        let mut changes = self.changes.subscribe();
        let known = |_: &u64| !matches!(**self.state.load(), ServerState::Connecting);
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = changes.wait_for(known).await;
    }

    /// Resets the count of refused writes.
    pub(super) fn record_write(&self) {
        if self.refused_writes.load(Ordering::Relaxed) != 0 {
            self.refused_writes.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a refused write. Several in a row mark the server down.
    pub(super) fn record_refused_write(&self, reply: &str) {
        if self.refused_writes.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_REFUSED_WRITES {
            self.mark_down(CallError::refused(&self.name, reply));
        }
    }

    /// Marks the server down.
    pub(super) fn mark_down(&self, cause: CallError) {
        self.mark_down_from(&self.state.load_full(), cause);
    }

    /// Marks the server down because of a connection that is still in use. Errors of a replaced
    /// connection say nothing about the server. Connections added since do not matter.
    fn mark_down_if_used(&self, connection: &Arc<Connection>, cause: CallError) {
        let state = self.state.load_full();
        if let ServerState::Healthy { connections, .. } = &*state
            && connections.iter().any(|used| Arc::ptr_eq(used, connection))
        {
            self.mark_down_from(&state, cause);
        }
    }

    /// Marks the server down unless its state has changed since `state` was read. The error may
    /// then be out of date.
    pub(super) fn mark_down_from(&self, state: &Arc<ServerState>, cause: CallError) {
        let ServerState::Healthy { connections, .. } = &**state else { return };
        self.refused_writes.store(0, Ordering::Relaxed);
        let outage = Outage { since: self.clock.now(), cause: Arc::new(cause) };
        if self.change(state, ServerState::Down(outage)) {
            connections.iter().for_each(|connection| connection.close());
            self.wakeup.notify_one();
        }
    }

    /// Replaces the state, unless it has changed since `from` was read.
    pub(super) fn change(&self, from: &Arc<ServerState>, to: ServerState) -> bool {
        let same_kind = matches!(
            (&**from, &to),
            (ServerState::Healthy { .. }, ServerState::Healthy { .. })
                | (ServerState::Down(_), ServerState::Down(_))
        );
        let previous = self.state.compare_and_swap(from, Arc::new(to));
        let changed = Arc::ptr_eq(&previous, from);
        if changed && !same_kind {
            self.changes.send_modify(|count| *count += 1);
        }
        changed
    }
}
