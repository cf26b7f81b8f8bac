//! How many places each party of a waiting room takes, and who takes most.

use std::collections::{BTreeSet, HashMap};

use super::order::Party;

/// Who takes which places.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    places: HashMap<Party, BTreeSet<u64>>,
    /// The same, by how many.
    by_number: BTreeSet<(usize, Party)>,
    taken: usize,
}

impl Crowd {
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn of(&self, party: &[u8]) -> usize {
        self.places.get(party).map_or(0, BTreeSet::len)
    }

    /// The most that one party takes.
    pub(super) fn most(&self) -> usize {
        self.by_number.last().map_or(0, |(number, _)| *number)
    }

    pub(super) fn add(&mut self, party: &Party, id: u64) {
        let ids = self.places.entry(party.clone()).or_default();
        self.by_number.remove(&(ids.len(), party.clone()));
        ids.insert(id);
        self.by_number.insert((ids.len(), party.clone()));
        self.taken += 1;
    }

    pub(super) fn remove(&mut self, party: &Party, id: u64) {
        let Some(ids) = self.places.get_mut(party) else { return };
        self.by_number.remove(&(ids.len(), party.clone()));
        self.taken -= usize::from(ids.remove(&id));
        match ids.len() {
            0 => drop(self.places.remove(party)),
            left => drop(self.by_number.insert((left, party.clone()))),
        }
    }

    /// Whether a newcomer finds a place, if need be that of another.
    pub(super) fn has_room_for(&self, party: &[u8], places: u64) -> bool {
        (self.taken as u64) < places || self.of(party) + 2 <= self.most()
    }

    /// Who has to give up a place to a newcomer, if all are taken: of the party that takes most, and
    /// at least two more than the newcomer's, who would be served last.
    pub(super) fn gives_way(&self, party: &[u8], places: u64, lifo: bool) -> Option<u64> {
        if (self.taken as u64) < places || !self.has_room_for(party, places) {
            return None;
        }
        let (_, greediest) = self.by_number.last()?;
        let ids = self.places.get(greediest)?;
        if lifo { ids.first() } else { ids.last() }.copied()
    }
}
