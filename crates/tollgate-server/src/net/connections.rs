//! The cap on open connections, and the share of each door.
//!
//! At the cap a new connection takes the slot of an idle one. A connection with a request in progress
//! is never closed for a new one: if no connection is idle, the new one is refused.
//!
//! Doors share the cap. A few slots are reserved for each, so that a crowd on one door does not close
//! another. Beyond that a door may use whatever is free; but a door that has more than its equal
//! share makes room from its own connections, and gives way to doors that have less.
//!
//! A few idle connections are sampled, and the one of them that has been idle longest is asked to
//! close. Comparing all would be exact, but then a client that holds many could make every accept
//! expensive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;

use super::connection_slot::{ConnectionSlot, SlotState};

/// The number of idle connections that are compared to find one that has been idle for long.
const EVICTION_SAMPLE: usize = 32;
/// The number of connections that are looked at to find idle ones.
const MAX_SCAN: usize = 4096;
/// The number of connections above the cap that are admitted while evicted ones still close. Each
/// door has an equal part of it, so that clients that close slowly affect their own door only.
pub(crate) const SLACK: usize = 128;
/// The maximum time for evicted connections to close, which takes them no more than a turn.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of slots that are reserved for one door.
const MAX_RESERVE: usize = 1024;
/// The part of a door's equal share that is reserved for it.
const RESERVED_PART: usize = 4;

/// All open connections of a server, up to a cap.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    doors: Mutex<Vec<DoorSlots>>,
    closed: Notify,
}

/// The connections of one door.
#[derive(Debug)]
struct DoorSlots {
    name: &'static str,
    slots: Slab<Arc<SlotState>>,
    /// The number of evicted connections that have not closed yet.
    closing: usize,
    refused: Arc<AtomicU64>,
}

/// The reason why a new connection cannot be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmitError {
    /// Every connection that could give way has a request in progress.
    AllBusy,
    /// Connections that were evicted have not closed yet.
    StillClosing,
}

/// The part of the connections that one door admits.
#[derive(Clone, Debug)]
pub(crate) struct DoorConnections {
    all: Arc<Connections>,
    door: usize,
    refused: Arc<AtomicU64>,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Connections> {
        Arc::new(Connections { max: max.max(1), doors: Mutex::default(), closed: Notify::new() })
    }

    /// Adds a door, which gets its share from now on.
    pub(crate) fn add_door(self: &Arc<Connections>, name: &'static str) -> DoorConnections {
        let mut doors = self.doors.lock();
        let refused = Arc::new(AtomicU64::new(0));
        doors.push(DoorSlots { name, slots: Slab::new(), closing: 0, refused: refused.clone() });
        DoorConnections { all: self.clone(), door: doors.len() - 1, refused }
    }

    /// Asks an idle connection of any door to close, because no file descriptor is left.
    pub(crate) fn evict_one(&self) {
        let mut doors = self.doors.lock();
        let all = 0..doors.len();
        let _ = by_size(&doors, all).any(|door| doors[door].evict_idle());
    }

    /// Returns the number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.doors.lock().iter().map(|door| door.slots.len()).sum()
    }

    /// Returns the number of refused connections of each door.
    pub(crate) fn refused(&self) -> Vec<(&'static str, u64)> {
        let doors = self.doors.lock();
        doors.iter().map(|door| (door.name, door.refused.load(Ordering::Relaxed))).collect()
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

    pub(super) fn release(&self, door: usize, index: usize) {
        {
            let door = &mut self.doors.lock()[door];
            if door.slots.remove(index).is_evicted() {
                door.closing -= 1;
            }
        }
        self.closed.notify_waiters();
    }

    /// Lets an evicted connection go on, because a request came on it.
    pub(super) fn cancel_eviction(&self, door: usize, index: usize) {
        let door = &mut self.doors.lock()[door];
        if door.slots[index].cancel_eviction() {
            door.closing -= 1;
        }
    }

    /// Returns the number of slots that each of some doors can always use.
    fn reserve(&self, doors: usize) -> usize {
        (self.max / (RESERVED_PART * doors)).min(MAX_RESERVE)
    }

    /// Returns whether a door can have another connection without one being closed.
    fn has_room(&self, doors: &[DoorSlots], door: usize) -> bool {
        let reserve = self.reserve(doors.len());
        let unused = |(number, other): (usize, &DoorSlots)| match number == door {
            true => 0,
            false => reserve.saturating_sub(other.count()),
        };
        let used: usize = doors.iter().map(DoorSlots::count).sum();
        used + doors.iter().enumerate().map(unused).sum::<usize>() < self.max
    }

    /// Asks an idle connection to close for a new one.
    fn make_room(&self, doors: &mut [DoorSlots], door: usize) -> Result<(), AdmitError> {
        let (share, max_closing) = (self.max / doors.len(), SLACK / doors.len());
        let over_share = (0..doors.len()).filter(|other| doors[*other].count() > share);
        let victims = match doors[door].count() < share {
            true => by_size(doors, over_share),
            false => Vec::new().into_iter(),
        };
        let mut error = AdmitError::AllBusy;
        for victim in victims.chain([door]) {
            let victim = &mut doors[victim];
            if victim.closing >= max_closing.max(1) {
                error = AdmitError::StillClosing;
            } else if victim.evict_idle() {
                return Ok(());
            }
        }
        Err(error)
    }
}

impl DoorConnections {
    /// Returns a slot for a new connection, evicting an idle one at the cap.
    ///
    /// Returns `None` if every connection that could give way has a request in progress, or if
    /// evicted ones do not close.
    pub(crate) async fn admit(&self) -> Option<ConnectionSlot> {
        let admit = async {
            loop {
                let closed = self.all.closed.notified();
                match self.try_admit() {
                    Ok(slot) => return Some(slot),
                    Err(AdmitError::AllBusy) => return None,
                    Err(AdmitError::StillClosing) => closed.await,
                }
            }
        };
        let admitted = tokio::time::timeout(CLOSE_TIMEOUT, admit).await.ok().flatten();
        if admitted.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    fn try_admit(&self) -> Result<ConnectionSlot, AdmitError> {
        let mut doors = self.all.doors.lock();
        if !self.all.has_room(&doors, self.door) {
            self.all.make_room(&mut doors, self.door)?;
        }
        let state = Arc::new(SlotState::new());
        let index = doors[self.door].slots.insert(state.clone());
        Ok(ConnectionSlot::new(self.all.clone(), state, (self.door, index)))
    }

    /// Asks an idle connection to close, because no file descriptor is left.
    pub(crate) fn evict_one(&self) {
        self.all.evict_one();
    }
}

impl DoorSlots {
    /// Returns the number of connections that stay open.
    fn count(&self) -> usize {
        self.slots.len() - self.closing
    }

    /// Asks the connection that has been idle longest among a random sample to close.
    ///
    /// Returns whether there is an idle one.
    fn evict_idle(&mut self) -> bool {
        let capacity = self.slots.capacity().max(1);
        let start = fastrand::usize(..capacity);
        let slots = (0..capacity.min(MAX_SCAN))
            .filter_map(|step| self.slots.get((start + step) % capacity))
            .filter(|slot| slot.is_evictable());
        match slots.take(EVICTION_SAMPLE).min_by_key(|slot| slot.last_active_ms()) {
            Some(slot) => {
                slot.evict();
                self.closing += 1;
                true
            }
            None => false,
        }
    }
}

/// Sorts doors by the number of their connections, largest first.
fn by_size(doors: &[DoorSlots], numbers: impl Iterator<Item = usize>) -> std::vec::IntoIter<usize> {
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_by_key(|number| std::cmp::Reverse(doors[*number].count()));
    numbers.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(door: &DoorConnections, count: usize) -> Vec<ConnectionSlot> {
        std::iter::from_fn(|| door.try_admit().ok()).take(count).collect()
    }

    #[tokio::test]
    async fn at_the_cap_the_connection_that_is_idle_longest_is_evicted() {
        let connections = Connections::new(2);
        let door = connections.add_door("http");
        let idle = door.try_admit().unwrap();
        idle.set_last_active_ms(0);
        let active = door.try_admit().unwrap();
        active.set_last_active_ms(1);
        let new = door.try_admit().unwrap();
        idle.evicted().await;
        assert_eq!(connections.count(), 3);
        drop(idle);
        drop((active, new));
        connections.wait_until_empty().await;
    }

    #[test]
    fn connections_that_do_not_close_exhaust_the_slack() {
        let connections = Connections::new(1_000);
        let door = connections.add_door("http");
        let slots = admit(&door, 10_000);
        assert_eq!(slots.len(), 1_000 + SLACK);
        assert_eq!(door.try_admit().err(), Some(AdmitError::StillClosing));
    }

    #[tokio::test]
    async fn a_request_in_progress_is_never_evicted() {
        let connections = Connections::new(10);
        let (http, gateway) = (connections.add_door("http"), connections.add_door("gateway"));
        let busy = admit(&gateway, 8);
        let requests: Vec<_> = busy.iter().map(ConnectionSlot::start_request).collect();
        let idle = admit(&http, 2);
        assert_eq!((busy.len(), idle.len()), (8, 2));
        assert!(gateway.admit().await.is_none(), "all of its connections are busy");
        assert_eq!(connections.refused(), [("http", 0), ("gateway", 1)]);
        let new = http.try_admit().expect("an idle one gives way");
        assert!(!busy.iter().any(ConnectionSlot::is_evicted));
        assert!(idle.iter().any(ConnectionSlot::is_evicted));
        drop(requests);
        assert!(gateway.try_admit().is_ok());
        drop(new);
        assert!(busy.iter().any(ConnectionSlot::is_evicted));
    }

    #[test]
    fn a_crowd_on_one_door_leaves_room_on_the_others() {
        let connections = Connections::new(100);
        let doors = ["http", "grpc", "resp", "gateway"].map(|name| connections.add_door(name));
        let mut crowd = admit(&doors[2], 1_000);
        assert_eq!(crowd.len(), 100 - 3 * 6 + SLACK / 4, "idle ones give way to later ones");
        crowd.retain(|slot| !slot.is_evicted());
        let requests: Vec<_> = crowd.iter().map(ConnectionSlot::start_request).collect();
        assert_eq!(doors[2].try_admit().err(), Some(AdmitError::AllBusy));
        let others = [&doors[0], &doors[1], &doors[3]].map(|door| admit(door, 6));
        assert!(others.iter().all(|slots| slots.len() == 6), "the reserve is free");
        drop(requests);
        let more = admit(&doors[3], 19);
        assert_eq!(more.len(), 19, "idle connections give way up to the equal share");
        assert_eq!(crowd.iter().filter(|slot| slot.is_evicted()).count(), 19);
        assert!(!others.iter().flatten().any(ConnectionSlot::is_evicted));
    }

    #[tokio::test]
    async fn a_request_that_comes_just_in_time_stops_the_eviction() {
        let connections = Connections::new(1);
        let door = connections.add_door("http");
        let one = door.try_admit().unwrap();
        let two = door.try_admit().unwrap();
        let request = one.start_request();
        {
            let mut evicted = std::pin::pin!(one.evicted());
            assert!(futures_util::poll!(evicted.as_mut()).is_pending());
        }
        assert!(!one.is_evicted());
        drop((request, two));
        assert!(door.try_admit().is_ok());
        one.evicted().await;
    }
}
