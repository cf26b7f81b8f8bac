//! The slot of one connection: whether it is idle, since when, and whether it must close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use tokio::sync::Notify;

use super::connections::Connections;
use crate::clock;

/// The state of one connection that an eviction reads and signals.
#[derive(Debug)]
pub(super) struct SlotState {
    /// When bytes last came, in milliseconds of the monotonic clock.
    last_active_ms: AtomicU64,
    /// The number of requests in progress.
    requests: AtomicU32,
    is_evicted: AtomicBool,
    evict: Notify,
}

impl SlotState {
    pub(super) fn new() -> SlotState {
        SlotState {
            last_active_ms: AtomicU64::new(clock::monotonic_ms()),
            requests: AtomicU32::new(0),
            is_evicted: AtomicBool::new(false),
            evict: Notify::new(),
        }
    }

    pub(super) fn last_active_ms(&self) -> u64 {
        self.last_active_ms.load(Ordering::Relaxed)
    }

    /// Returns whether the connection is idle and not closing already.
    pub(super) fn is_evictable(&self) -> bool {
        !self.is_busy() && !self.is_evicted()
    }

    /// Asks the connection to close.
    pub(super) fn evict(&self) {
        self.is_evicted.store(true, Ordering::Relaxed);
        self.evict.notify_one();
    }

    /// Lets the connection go on; returns whether it was asked to close.
    pub(super) fn cancel_eviction(&self) -> bool {
        self.is_evicted.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::Relaxed)
    }

    fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }
}

/// The slot that one connection occupies; dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    state: Arc<SlotState>,
    /// The numbers of the door and of the slot within it.
    place: (usize, usize),
}

/// A request in progress, during which its connection is not evicted.
#[derive(Debug)]
pub(crate) struct SlotRequest<'s>(&'s ConnectionSlot);

impl ConnectionSlot {
    pub(super) fn new(
        connections: Arc<Connections>,
        state: Arc<SlotState>,
        place: (usize, usize),
    ) -> ConnectionSlot {
        ConnectionSlot { connections, state, place }
    }

    /// Records that bytes came on the connection.
    pub(crate) fn touch(&self) {
        self.state.last_active_ms.store(clock::monotonic_ms(), Ordering::Relaxed);
    }

    /// Returns the time since bytes last came, in milliseconds.
    pub(crate) fn idle_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.state.last_active_ms())
    }

    /// Records that a request is in progress until the returned value is dropped.
    pub(crate) fn start_request(&self) -> SlotRequest<'_> {
        self.add_request();
        SlotRequest(self)
    }

    /// Records that a request is in progress until [`ConnectionSlot::remove_request`].
    pub(crate) fn add_request(&self) {
        self.state.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_request(&self) {
        self.state.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether a request is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.state.is_busy()
    }

    /// Waits until the connection must close because a new one needs its slot.
    pub(crate) async fn evicted(&self) {
        loop {
            self.state.evict.notified().await;
            if !self.is_busy() {
                return;
            }
            // A request came just after the connection was chosen, so another one has to close.
            let (door, index) = self.place;
            self.connections.cancel_eviction(door, index);
        }
    }
}

impl Drop for SlotRequest<'_> {
    fn drop(&mut self) {
        self.0.remove_request();
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let (door, index) = self.place;
        self.connections.release(door, index);
    }
}

#[cfg(test)]
impl ConnectionSlot {
    pub(super) fn set_last_active_ms(&self, time_ms: u64) {
        self.state.last_active_ms.store(time_ms, Ordering::Relaxed);
    }

    pub(super) fn is_evicted(&self) -> bool {
        self.state.is_evicted()
    }
}
