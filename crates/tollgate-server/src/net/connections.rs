//! Who is connected, so that nobody can keep others out by being silent.
//!
//! Places are bounded. When they run out, a few are looked at and who has been silent longest is
//! asked to leave: fifty thousand idle connections cost an honest one nothing. Looking at all of
//! them would be exact, and would let whoever holds many make every arrival dear.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;

use crate::clock;

/// How many are looked at to find one that has been silent for long.
const LOOKED_AT: usize = 32;
/// Who was asked to leave needs a moment: so many more than the bound are let in meanwhile.
const SLACK: usize = 64;

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    places: Mutex<Slab<Arc<Place>>>,
    left: Notify,
}

#[derive(Debug)]
struct Place {
    /// When it was last heard of, in milliseconds of the monotonic clock.
    heard: AtomicU64,
    wanted: Notify,
}

/// A connection's place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    connections: Arc<Connections>,
    place: Arc<Place>,
    number: usize,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections { most: most.max(1), places: Mutex::default(), left: Notify::new() })
    }

    /// A place for a newcomer. If there is none, somebody is asked to leave.
    pub(crate) fn admit(self: &Arc<Connections>) -> Option<Seat> {
        let heard = AtomicU64::new(clock::monotonic_ms());
        let place = Arc::new(Place { heard, wanted: Notify::new() });
        let mut places = self.places.lock();
        if places.len() >= self.most {
            dismiss_one(&places);
            if places.len() >= self.most + SLACK {
                return None;
            }
        }
        let number = places.insert(place.clone());
        Some(Seat { connections: self.clone(), place, number })
    }

    /// Somebody leaves, for example because the system has no more files to give.
    pub(crate) fn make_room(&self) {
        dismiss_one(&self.places.lock());
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.places.lock().len()
    }

    /// Done once nobody is left.
    pub(crate) async fn empty(&self) {
        loop {
            let left = self.left.notified();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }
}

/// Asks one to leave: of a few, who has been silent longest.
fn dismiss_one(places: &Slab<Arc<Place>>) {
    let slots = places.capacity().max(1);
    let start = fastrand::usize(..slots);
    let some = (0..slots).filter_map(|step| places.get((start + step) % slots)).take(LOOKED_AT);
    if let Some(place) = some.min_by_key(|place| place.heard.load(Ordering::Relaxed)) {
        // Not chosen twice while it is on its way out.
        place.heard.store(u64::MAX, Ordering::Relaxed);
        place.wanted.notify_one();
    }
}

impl Seat {
    /// The connection said something.
    pub(crate) fn heard(&self) {
        self.place.heard.store(clock::monotonic_ms(), Ordering::Relaxed);
    }

    /// How long it has been silent, in milliseconds.
    pub(crate) fn silent_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.place.heard.load(Ordering::Relaxed))
    }

    /// Done once the place is needed by somebody else.
    pub(crate) async fn wanted(&self) {
        self.place.wanted.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.places.lock().remove(self.number);
        self.connections.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_silent_give_way_to_newcomers() {
        let connections = Connections::new(2);
        let silent = connections.admit().unwrap();
        silent.place.heard.store(0, Ordering::Relaxed);
        let talking = connections.admit().unwrap();
        talking.place.heard.store(1, Ordering::Relaxed);
        let newcomer = connections.admit().unwrap();
        silent.wanted().await;
        assert_eq!(connections.count(), 3);
        drop(silent);
        drop((talking, newcomer));
        connections.empty().await;
    }

    #[test]
    fn who_does_not_leave_keeps_newcomers_out_in_the_end() {
        let connections = Connections::new(1);
        let seats: Vec<_> = std::iter::from_fn(|| connections.admit()).take(1_000).collect();
        assert_eq!(seats.len(), 1 + SLACK);
    }
}
