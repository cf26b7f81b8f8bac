//! One server: its connections, and whether it is well.
//!
//! A server that is in trouble *rests*: its connections are dropped, callers are told at once, and
//! nothing is sent until `keeper.rs` has found it well again. Nothing is ever kept to be sent later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::{Cmd, Pipeline, RedisError, Value};
use smallvec::SmallVec;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};
use tollgate::{Clock, Time};

use super::link::Link;
use super::scripts::Road;
use crate::options::Address;
use crate::server_clock::ServerClock;
use crate::trouble::Trouble;

/// So many writes are refused in a row before a server that still answers is left alone.
const REFUSALS: u32 = 3;

/// One server, or whichever is the master at the moment.
#[derive(Debug)]
pub(super) struct Server {
    /// What it is called in messages.
    pub(super) name: Arc<str>,
    pub(super) condition: ArcSwap<Condition>,
    /// Its clock.
    pub(super) time: Arc<ServerClock>,
    /// Ours.
    pub(super) clock: Clock,
    pub(super) timeout: Duration,
    /// Rung when a connection breaks or the server is in trouble.
    pub(super) bell: Arc<Notify>,
    /// Counts changes of the condition, of all servers.
    pub(super) changes: watch::Sender<u64>,
    /// How it takes scripts.
    pub(super) road: AtomicU8,
    /// A slot it keeps, in a cluster.
    pub(super) slot: AtomicU16,
    heard: AtomicU64,
    refusals: AtomicU32,
    turn: AtomicUsize,
}

/// How a server is.
#[derive(Debug)]
pub(super) enum Condition {
    /// Nobody knows yet.
    Connecting,
    Well {
        address: Address,
        links: SmallVec<[Arc<Link>; 2]>,
    },
    Resting(Resting),
}

/// Why a server is left alone.
#[derive(Clone, Debug)]
pub(super) struct Resting {
    pub(super) since: Time,
    pub(super) because: Arc<Trouble>,
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
            condition: ArcSwap::from_pointee(Condition::Connecting),
            time: Arc::default(),
            clock,
            timeout,
            bell: Arc::default(),
            changes,
            road: AtomicU8::new(Road::Unknown as u8),
            slot: AtomicU16::new(0),
            heard: AtomicU64::new(0),
            refusals: AtomicU32::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    /// Sends a command.
    pub(super) async fn send(&self, command: &Cmd, until: Instant) -> Result<Value, Trouble> {
        self.exchange(until, |link| async move { link.send(command).await }).await
    }

    /// Sends commands together; nobody else's come between them.
    pub(super) async fn send_all(
        &self,
        commands: &Pipeline,
        until: Instant,
    ) -> Result<Vec<Value>, Trouble> {
        self.exchange(until, |link| async move { link.send_all(commands).await }).await
    }

    async fn exchange<T, F>(
        &self,
        until: Instant,
        send: impl FnOnce(Arc<Link>) -> F,
    ) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let condition = self.known_condition(until).await?;
        let link = self.pick(&condition)?;
        let (heard, heard_here) = (self.heard.load(Ordering::Relaxed), link.heard());
        let mut answer = std::pin::pin!(send(link.clone()));
        let mut outcome = timeout_at(until, &mut answer).await;
        if outcome.is_err() {
            // On a busy machine the answer may have come and nobody had the time to read it.
            tokio::task::yield_now().await;
            outcome = timeout_at(until, &mut answer).await;
        }
        match outcome {
            Ok(Ok(answer)) => {
                self.heard.fetch_add(1, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(error)) => {
                link.hang_up();
                self.bell.notify_one();
                // If others have found it in trouble, theirs is the better explanation.
                match &**self.condition.load() {
                    Condition::Resting(resting) => Err((*resting.because).clone()),
                    _ => Err(Trouble::unreachable(&self.name, error)),
                }
            }
            Err(_) => {
                let trouble = Trouble::TimedOut { server: self.name.clone(), after: self.timeout };
                if self.heard.load(Ordering::Relaxed) == heard {
                    self.rest_if_used(link, trouble.clone());
                } else if link.heard() == heard_here {
                    // The server answers others: it is only this connection.
                    link.hang_up();
                    self.bell.notify_one();
                }
                Err(trouble)
            }
        }
    }

    /// The condition, once it is known: whoever is sent to a new server waits for the connection.
    async fn known_condition(&self, until: Instant) -> Result<Arc<Condition>, Trouble> {
        let condition = self.condition.load_full();
        if !matches!(*condition, Condition::Connecting) {
            return Ok(condition);
        }
        let late = |_| Trouble::TimedOut { server: self.name.clone(), after: self.timeout };
        timeout_at(until, self.met()).await.map_err(late)?;
        Ok(self.condition.load_full())
    }

    fn pick<'a>(&self, condition: &'a Arc<Condition>) -> Result<&'a Arc<Link>, Trouble> {
        match &**condition {
            Condition::Well { links, .. } => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                let mut from_here = (0..links.len()).map(|i| &links[(turn + i) % links.len()]);
                from_here.find(|link| !link.is_lost()).ok_or_else(|| {
                    self.rest_from(condition, self.hung_up());
                    Trouble::Resting { because: Arc::new(self.hung_up()) }
                })
            }
            Condition::Resting(resting) => {
                Err(Trouble::Resting { because: resting.because.clone() })
            }
            Condition::Connecting => Err(Trouble::unreachable(&self.name, "not connected yet")),
        }
    }

    /// The trouble of a server that closed its connections.
    pub(super) fn hung_up(&self) -> Trouble {
        Trouble::unreachable(&self.name, "it hung up")
    }

    pub(super) fn is_well(&self) -> bool {
        matches!(**self.condition.load(), Condition::Well { .. })
    }

    /// Why it is left alone, if it is.
    pub(super) fn resting(&self) -> Option<Resting> {
        match &**self.condition.load() {
            Condition::Resting(resting) => Some(resting.clone()),
            _ => None,
        }
    }

    /// Waits until it is known how the server is.
    pub(super) async fn met(&self) {
        let mut changes = self.changes.subscribe();
        let known = |_: &u64| !matches!(**self.condition.load(), Condition::Connecting);
        // Nobody is left to tell: then nobody asks either.
        let _ = changes.wait_for(known).await;
    }

    /// A write was executed.
    pub(super) fn was_willing(&self) {
        if self.refusals.load(Ordering::Relaxed) != 0 {
            self.refusals.store(0, Ordering::Relaxed);
        }
    }

    /// A write was refused: after some in a row the server is left alone.
    pub(super) fn was_unwilling(&self, reply: &str) {
        if self.refusals.fetch_add(1, Ordering::Relaxed) + 1 >= REFUSALS {
            self.rest(Trouble::refused(&self.name, reply));
        }
    }

    /// Leaves the server alone from now on.
    pub(super) fn rest(&self, because: Trouble) {
        self.rest_from(&self.condition.load_full(), because);
    }

    /// The same because of a connection, unless that is used no more: then its trouble is history.
    /// That others were added since changes nothing.
    fn rest_if_used(&self, link: &Arc<Link>, because: Trouble) {
        let condition = self.condition.load_full();
        if let Condition::Well { links, .. } = &*condition
            && links.iter().any(|used| Arc::ptr_eq(used, link))
        {
            self.rest_from(&condition, because);
        }
    }

    /// The same, unless its condition has changed since: then that trouble is history.
    pub(super) fn rest_from(&self, condition: &Arc<Condition>, because: Trouble) {
        let Condition::Well { links, .. } = &**condition else { return };
        self.refusals.store(0, Ordering::Relaxed);
        let resting = Resting { since: self.clock.now(), because: Arc::new(because) };
        if self.change(condition, Condition::Resting(resting)) {
            links.iter().for_each(|link| link.hang_up());
            self.bell.notify_one();
        }
    }

    /// Changes the condition unless somebody else has.
    pub(super) fn change(&self, from: &Arc<Condition>, to: Condition) -> bool {
        let told = matches!(
            (&**from, &to),
            (Condition::Well { .. }, Condition::Well { .. })
                | (Condition::Resting(_), Condition::Resting(_))
        );
        let previous = self.condition.compare_and_swap(from, Arc::new(to));
        let changed = Arc::ptr_eq(&previous, from);
        if changed && !told {
            self.changes.send_modify(|count| *count += 1);
        }
        changed
    }
}
