//! Where the state of one check lives.

use super::MemoryStore;
use super::cold::Cold;
use super::place::Place;
use super::room::Room;
use super::spot::Spot;
use crate::Key;
use crate::key::Fingerprint;
use crate::limit::Limit;
use crate::store::Bucket;

/// A room, what finds a key in it, and what was found there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat<'a> {
    pub(super) room: Room,
    pub(super) fingerprint: Fingerprint,
    pub(super) desk: Desk<'a>,
}

/// What is behind a seat.
#[derive(Clone, Copy, Debug)]
pub(super) enum Desk<'a> {
    /// Nothing: what is not limited is not remembered.
    Nowhere,
    /// The number, in its room, of the lock to be taken.
    Away(u64),
    Narrow(Spot<'a, 8, 1>),
    Wide(Spot<'a, 16, 3>),
    /// Which of the locked shards.
    Cold(usize),
}

impl<'a> Seat<'a> {
    /// Nobody's seat.
    pub(super) const FREE: Seat<'a> =
        Seat { room: Room::Nowhere, fingerprint: [0, 0], desk: Desk::Nowhere };

    #[inline]
    pub(super) fn of(store: &MemoryStore, bucket: Bucket, key: Key<'_>, limit: &Limit) -> Seat<'a> {
        let mut seat = Seat::FREE;
        seat.take(store, bucket, key, limit);
        seat
    }

    /// Makes it the seat of a key.
    #[inline]
    pub(super) fn take(
        &mut self,
        store: &MemoryStore,
        bucket: Bucket,
        key: Key<'_>,
        limit: &Limit,
    ) {
        self.room = Room::of(limit);
        self.fingerprint = store.fingerprinter.of(bucket, key);
    }

    #[inline]
    pub(super) fn place(&self) -> Place {
        Place::of(self.fingerprint)
    }

    /// Whether both are about the same state.
    #[inline]
    pub(super) fn is_same(&self, other: &Seat<'_>) -> bool {
        (self.fingerprint, self.room) == (other.fingerprint, other.room)
    }

    /// Finds the lock that covers it at this moment, and starts to bring its line into the
    /// cache, so that the misses of several checks overlap.
    #[inline]
    pub(super) fn set_out(&mut self, store: &MemoryStore) {
        self.desk = match self.room {
            Room::Narrow => Desk::Away(store.narrow.touch(self.place())),
            Room::Wide => Desk::Away(store.wide.touch(self.place())),
            Room::Cold => Desk::Away(Cold::shard_of(self.fingerprint)),
            Room::Nowhere => Desk::Nowhere,
        };
    }

    /// The lock that is still to be taken.
    #[inline]
    pub(super) fn missing(&self) -> Option<(Room, u64)> {
        match self.desk {
            Desk::Away(number) => Some((self.room, number)),
            _ => None,
        }
    }
}
