//! The order in which waiting requests are served.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A key, or a tenant under one, whose requests count together for turns and capacity.
pub(super) type ShareKey = Arc<[u8]>;

/// The waiting requests of one key. Ids grow, so the smallest id is the oldest request.
#[derive(Debug, Default)]
pub(super) struct QueueOrder {
    all: BTreeMap<u64, QueueMember>,
    /// The tenants that have waiting requests; the one whose turn is next comes first.
    turns: VecDeque<(ShareKey, BTreeSet<u64>)>,
}

#[derive(Debug)]
struct QueueMember {
    tenant: ShareKey,
    cost: u64,
}

impl QueueOrder {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        self.all.keys().next().copied()
    }

    pub(super) fn add(&mut self, id: u64, tenant: &ShareKey, cost: u64) {
        self.all.insert(id, QueueMember { tenant: tenant.clone(), cost });
        match self.turns.iter_mut().find(|(known, _)| known == tenant) {
            Some((_, ids)) => ids.insert(id),
            None => {
                self.turns.push_back((tenant.clone(), BTreeSet::from([id])));
                true
            }
        };
    }

    /// Returns the next request to serve: the oldest or newest one of a given cost, of the first
    /// tenant that has one.
    pub(super) fn next(&self, lifo: bool, cost: Option<u64>) -> Option<u64> {
        let fits = |id: &&u64| cost.is_none_or(|cost| self.all[*id].cost == cost);
        self.turns.iter().find_map(|(_, ids)| match lifo {
            false => ids.iter().find(fits).copied(),
            true => ids.iter().rev().find(fits).copied(),
        })
    }

    /// Removes a request that is served; its tenant now comes after all others.
    pub(super) fn serve(&mut self, id: u64) {
        let turn = self.turn_of(id);
        self.remove(id);
        if let Some(turn) = turn.and_then(|turn| self.turns.iter().position(|(it, _)| *it == turn))
            && let Some(served) = self.turns.remove(turn)
        {
            self.turns.push_back(served);
        }
    }

    /// Removes a request that is cancelled.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(QueueMember { tenant, .. }) = self.all.remove(&id) else { return };
        let Some(turn) = self.turns.iter().position(|(known, _)| *known == tenant) else { return };
        self.turns[turn].1.remove(&id);
        if self.turns[turn].1.is_empty() {
            self.turns.remove(turn);
        }
    }

    fn turn_of(&self, id: u64) -> Option<ShareKey> {
        self.all.get(&id).map(|member| member.tenant.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> ShareKey {
        name.as_bytes().into()
    }

    /// Serves all requests.
    fn served(order: &mut QueueOrder, lifo: bool) -> Vec<u64> {
        let mut served = Vec::new();
        while let Some(next) = order.next(lifo, None) {
            order.serve(next);
            served.push(next);
        }
        assert!(order.is_empty());
        served
    }

    #[test]
    fn of_one_tenant_the_oldest_or_the_newest_goes_first() {
        for (lifo, expected) in [(false, [1, 2, 4]), (true, [4, 2, 1])] {
            let mut order = QueueOrder::default();
            (1..=4).for_each(|id| order.add(id, &tenant(""), 1));
            order.remove(3);
            assert_eq!(served(&mut order, lifo), expected);
        }
    }

    #[test]
    fn tenants_take_turns() {
        let mut order = QueueOrder::default();
        for (id, name) in
            [(1, "loud"), (2, "loud"), (3, "loud"), (4, "ann"), (5, "bob"), (6, "ann")]
        {
            order.add(id, &tenant(name), 1);
        }
        assert_eq!(served(&mut order, false), [1, 4, 5, 2, 6, 3]);
    }

    #[test]
    fn the_next_request_of_a_cost_is_found() {
        let mut order = QueueOrder::default();
        for (id, cost) in [(1, 5), (2, 1), (3, 5), (4, 1)] {
            order.add(id, &tenant(""), cost);
        }
        assert_eq!(order.next(false, Some(1)), Some(2));
        assert_eq!(order.next(true, Some(5)), Some(3));
        assert_eq!(order.next(false, Some(7)), None);
    }
}
