//! The cap on open connections: when it is reached, an idle connection is closed.
//!
//! At the cap a few connections are sampled, and the one of them that has been idle longest is asked
//! to close. So fifty thousand idle connections cannot keep an active client out. Comparing all
//! connections would be exact, but then a client that holds many could make every accept expensive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;

use crate::clock;

/// The number of connections that are compared to find one that has been idle for long.
const EVICTION_SAMPLE: usize = 32;
/// The number of connections above the cap that are admitted while evicted ones still close.
const SLACK: usize = 64;

/// All open connections of a server, up to a cap.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    slots: Mutex<Slab<Arc<SlotState>>>,
    closed: Notify,
}

/// The state of one connection that an eviction reads and signals.
#[derive(Debug)]
struct SlotState {
    /// When bytes last came, in milliseconds of the monotonic clock.
    last_active_ms: AtomicU64,
    evict: Notify,
}

/// The slot that one connection occupies; dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    state: Arc<SlotState>,
    index: usize,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Connections> {
        Arc::new(Connections { max: max.max(1), slots: Mutex::default(), closed: Notify::new() })
    }

    /// Returns a slot for a new connection, evicting an idle one at the cap.
    ///
    /// Returns `None` when evicted connections have not closed yet and the slack is used up.
    pub(crate) fn admit(self: &Arc<Connections>) -> Option<ConnectionSlot> {
        let last_active_ms = AtomicU64::new(clock::monotonic_ms());
        let state = Arc::new(SlotState { last_active_ms, evict: Notify::new() });
        let mut slots = self.slots.lock();
        if slots.len() >= self.max {
            evict_idle(&slots);
            if slots.len() >= self.max + SLACK {
                return None;
            }
        }
        let index = slots.insert(state.clone());
        Some(ConnectionSlot { connections: self.clone(), state, index })
    }

    /// Asks an idle connection to close, for example because no file descriptor is left.
    pub(crate) fn evict_one(&self) {
        evict_idle(&self.slots.lock());
    }

    /// Returns the number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.slots.lock().len()
    }

    /// Waits until no connection is open.
    pub(crate) async fn wait_until_empty(&self) {
        loop {
            let closed = self.closed.notified();
            if self.count() == 0 {
                return;
            }
            closed.await;
        }
    }
}

/// Asks the connection that has been idle longest among a random sample to close.
fn evict_idle(slots: &Slab<Arc<SlotState>>) {
    let capacity = slots.capacity().max(1);
    let start = fastrand::usize(..capacity);
    let sample =
        (0..capacity).filter_map(|step| slots.get((start + step) % capacity)).take(EVICTION_SAMPLE);
    if let Some(slot) = sample.min_by_key(|slot| slot.last_active_ms.load(Ordering::Relaxed)) {
        // A connection that is already closing must not be chosen again.
        slot.last_active_ms.store(u64::MAX, Ordering::Relaxed);
        slot.evict.notify_one();
    }
}

impl ConnectionSlot {
    /// Records that bytes came on the connection.
    pub(crate) fn touch(&self) {
        self.state.last_active_ms.store(clock::monotonic_ms(), Ordering::Relaxed);
    }

    /// Returns the time since bytes last came, in milliseconds.
    pub(crate) fn idle_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.state.last_active_ms.load(Ordering::Relaxed))
    }

    /// Waits until the connection must close because a new one needs its slot.
    pub(crate) async fn evicted(&self) {
        self.state.evict.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.slots.lock().remove(self.index);
        self.connections.closed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn at_the_cap_the_connection_that_is_idle_longest_is_evicted() {
        let connections = Connections::new(2);
        let idle = connections.admit().unwrap();
        idle.state.last_active_ms.store(0, Ordering::Relaxed);
        let active = connections.admit().unwrap();
        active.state.last_active_ms.store(1, Ordering::Relaxed);
        let new = connections.admit().unwrap();
        idle.evicted().await;
        assert_eq!(connections.count(), 3);
        drop(idle);
        drop((active, new));
        connections.wait_until_empty().await;
    }

    #[test]
    fn connections_that_do_not_close_exhaust_the_slack() {
        let connections = Connections::new(1);
        let slots: Vec<_> = std::iter::from_fn(|| connections.admit()).take(1_000).collect();
        assert_eq!(slots.len(), 1 + SLACK);
    }
}
