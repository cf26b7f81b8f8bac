//! The memory for request bodies that are read before their requests are answered.
//!
//! All doors of a server share one budget. Memory is reserved as it is needed, never in advance, and
//! a client may hold at most as much as then remains free (the dynamic thresholds of shared-memory
//! switches). So one client can take half of the budget, two take a third each, and however many
//! clients take all they can, a share of the same size remains for the next one: a client that
//! exceeds its share affects only itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::client_network;
use crate::config::Bounds;

/// The least number of bodies of the maximum size that fit into the budget.
const MIN_BODIES: usize = 4;

/// The client that memory is charged to; clients on Unix sockets are one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BodyOwner(Option<IpAddr>);

impl BodyOwner {
    pub(crate) fn new(address: Option<IpAddr>) -> BodyOwner {
        BodyOwner(address.map(client_network))
    }
}

/// The memory for request bodies, shared by all clients.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    max_bytes: usize,
    usage: Mutex<BodyMemoryUsage>,
    /// The number of bodies that were refused.
    refusals: AtomicU64,
}

/// The memory in use, in all and by client.
#[derive(Debug, Default)]
struct BodyMemoryUsage {
    total: usize,
    /// Clients that hold memory; others are absent.
    by_owner: HashMap<BodyOwner, usize>,
}

impl BodyBudget {
    /// Creates the budget of a server whose largest body has `max_body` bytes.
    pub(crate) fn new(bounds: &Bounds, max_body: usize) -> Arc<BodyBudget> {
        let max_bytes = bounds.buffered_bodies.max(max_body.saturating_mul(MIN_BODIES));
        Arc::new(BodyBudget { max_bytes, usage: Mutex::default(), refusals: AtomicU64::new(0) })
    }

    /// Returns the number of bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.usage.lock().total
    }

    /// Returns the number of bodies that were refused for lack of memory.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    fn take(&self, owner: BodyOwner, bytes: usize) -> Result<(), BodyMemoryError> {
        let mut usage = self.usage.lock();
        let held = usage.by_owner.get(&owner).copied().unwrap_or(0);
        let free = self.max_bytes.saturating_sub(usage.total).saturating_sub(bytes);
        if held.saturating_add(bytes) > free {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return Err(BodyMemoryError);
        }
        usage.total += bytes;
        usage.by_owner.insert(owner, held + bytes);
        Ok(())
    }

    fn give_back(&self, owner: BodyOwner, bytes: usize) {
        let mut usage = self.usage.lock();
        usage.total -= bytes;
        if let Some(held) = usage.by_owner.get_mut(&owner) {
            *held -= bytes;
            if *held == 0 {
                usage.by_owner.remove(&owner);
            }
        }
    }
}

/// The error of a client that has no memory left for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyMemoryError;

/// The memory of one client's bodies.
#[derive(Clone, Debug)]
pub(crate) struct BodyMemory {
    budget: Arc<BodyBudget>,
    owner: BodyOwner,
}

impl BodyMemory {
    pub(crate) fn new(budget: &Arc<BodyBudget>, owner: Option<IpAddr>) -> BodyMemory {
        BodyMemory { budget: budget.clone(), owner: BodyOwner::new(owner) }
    }

    /// Returns a reservation of nothing, which grows with its body.
    pub(crate) fn reserve(&self) -> BodyReservation {
        BodyReservation { memory: self.clone(), bytes: 0 }
    }
}

/// The memory that is reserved for one body, returned on drop.
#[derive(Debug)]
pub(crate) struct BodyReservation {
    memory: BodyMemory,
    bytes: usize,
}

impl BodyReservation {
    /// Makes the reservation at least as large as `bytes`.
    pub(super) fn grow_to(&mut self, bytes: usize) -> Result<(), BodyMemoryError> {
        if let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) {
            self.memory.budget.take(self.memory.owner, more)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.budget.give_back(self.memory.owner, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(max_bytes: usize) -> Arc<BodyBudget> {
        let bounds = Bounds { buffered_bodies: max_bytes, ..Bounds::default() };
        BodyBudget::new(&bounds, 0)
    }

    fn memory(budget: &Arc<BodyBudget>, address: &str) -> BodyMemory {
        BodyMemory::new(budget, Some(address.parse().unwrap()))
    }

    /// Takes memory in steps until none is left for this client; returns the reservation.
    fn take_all(memory: &BodyMemory) -> BodyReservation {
        let mut reservation = memory.reserve();
        while reservation.grow_to(reservation.bytes + 1).is_ok() {}
        reservation
    }

    #[test]
    fn a_client_holds_at_most_as_much_as_remains_free() {
        let budget = budget(1000);
        let first = take_all(&memory(&budget, "192.0.2.1"));
        assert_eq!(first.bytes, 500);
        let mut more = memory(&budget, "192.0.2.1").reserve();
        assert_eq!(more.grow_to(1), Err(BodyMemoryError), "another body of the same client");
        let others: Vec<_> =
            (2..20).map(|host| take_all(&memory(&budget, &format!("192.0.2.{host}")))).collect();
        assert!(budget.used() < 1000, "something remains for the next client");
        assert!(others.iter().all(|other| other.bytes > 0 || budget.used() >= 999));
        assert!(budget.refusals() > 0);
        drop((first, more, others));
        assert_eq!(budget.used(), 0);
        assert!(budget.usage.lock().by_owner.is_empty());
        assert_eq!(take_all(&memory(&budget, "192.0.2.9")).bytes, 500, "all of it came back");
    }

    #[test]
    fn a_client_cannot_change_its_identity() {
        let budget = budget(1000);
        let _held = take_all(&memory(&budget, "2001:db8:0:1::1"));
        let mut neighbour = memory(&budget, "2001:db8:0:1:ffff::2").reserve();
        assert!(neighbour.grow_to(1).is_err(), "the same network");
        let mut other = memory(&budget, "2001:db8:0:2::1").reserve();
        assert!(other.grow_to(200).is_ok(), "another network");
        let mapped = BodyOwner::new(Some("::ffff:192.0.2.1".parse().unwrap()));
        assert_eq!(mapped, BodyOwner::new(Some("192.0.2.1".parse().unwrap())));
    }

    #[test]
    fn the_largest_body_always_fits() {
        let bounds = Bounds { buffered_bodies: 1, ..Bounds::default() };
        let budget = BodyBudget::new(&bounds, 100);
        assert!(memory(&budget, "192.0.2.1").reserve().grow_to(100).is_ok());
    }
}
