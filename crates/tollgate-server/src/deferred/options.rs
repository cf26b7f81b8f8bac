//! Options of the deferred queue.

use std::time::Duration;

use super::item::ItemState;
use crate::capacity_share::{CapacityShare, CapacityUsage};

/// The options of the deferred queue (`then: defer`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeferOptions {
    /// The path prefix of status requests, which are never forwarded to an upstream.
    pub prefix: String,
    /// The maximum size of a body, in bytes.
    pub body: usize,
    /// The maximum number of stored requests, including dead letters.
    pub count: usize,
    /// The maximum total size of stored requests, in bytes.
    pub bytes: u64,
    /// The maximum share of one rule and key, in number and size, of what other keys leave: from 0
    /// to 1. With 1, one key may fill the queue.
    pub share: f64,
    /// The maximum number of attempts before a request becomes a dead letter.
    pub attempts: u32,
    /// The maximum age of a request at its next attempt.
    pub give_up: Duration,
    /// The time for which the status of a finished request is available.
    pub keep: Duration,
    /// The time after which a dead letter is removed.
    pub keep_dead: Duration,
    /// The first pause between attempts; it doubles each time.
    pub backoff: Duration,
    /// The maximum number of requests in flight.
    pub in_flight: usize,
    /// In a shared store, the time after which other nodes take over a silent node's requests.
    pub take_over: Duration,
}

impl Default for DeferOptions {
    fn default() -> DeferOptions {
        DeferOptions {
            prefix: "/.tollgate/deferred/".to_owned(),
            body: 1 << 20,
            count: 10_000,
            bytes: 256 << 20,
            share: 0.25,
            attempts: 10,
            give_up: Duration::from_secs(24 * 3600),
            keep: Duration::from_secs(3600),
            keep_dead: Duration::from_secs(7 * 24 * 3600),
            backoff: Duration::from_secs(1),
            in_flight: 64,
            take_over: Duration::from_secs(15),
        }
    }
}

impl DeferOptions {
    /// Returns the capacity of the queue, and the share of one key.
    pub(super) fn capacity(&self) -> CapacityShare {
        let capacity = CapacityUsage { count: self.count as u64, bytes: self.bytes };
        CapacityShare { capacity, percent: (self.share.clamp(0.0, 1.0) * 100.0).round() as u64 }
    }

    /// Returns when a request that has been in a state since `changed_ms` is removed; `None` if it
    /// is still to be sent.
    pub(super) fn expires_ms(&self, state: ItemState, changed_ms: i64) -> Option<i64> {
        let kept = match state {
            ItemState::Queued | ItemState::Sending => return None,
            ItemState::Done | ItemState::Cancelled => self.keep,
            ItemState::Failed => self.keep_dead,
        };
        Some(changed_ms.saturating_add(millis(kept)))
    }
}

/// Returns a length of time in whole milliseconds.
pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
