//! Who stands in a line, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Who is counted as one when turns are taken or places shared: a key, or a tenant under one.
pub(super) type Party = Arc<[u8]>;

/// Those who stand in a line. Numbers grow: who has the smallest came first.
#[derive(Debug, Default)]
pub(super) struct Order {
    all: BTreeMap<u64, Member>,
    /// The tenants that have somebody here, whose turn is next leading.
    turns: VecDeque<(Party, BTreeSet<u64>)>,
}

#[derive(Debug)]
struct Member {
    tenant: Party,
    cost: u64,
}

impl Order {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        self.all.keys().next().copied()
    }

    pub(super) fn add(&mut self, id: u64, tenant: &Party, cost: u64) {
        self.all.insert(id, Member { tenant: tenant.clone(), cost });
        match self.turns.iter_mut().find(|(known, _)| known == tenant) {
            Some((_, ids)) => ids.insert(id),
            None => {
                self.turns.push_back((tenant.clone(), BTreeSet::from([id])));
                true
            }
        };
    }

    /// Whose turn it is: of the first tenant that has somebody of that cost, the oldest or the
    /// newest.
    pub(super) fn next(&self, lifo: bool, cost: Option<u64>) -> Option<u64> {
        let fits = |id: &&u64| cost.is_none_or(|cost| self.all[*id].cost == cost);
        self.turns.iter().find_map(|(_, ids)| match lifo {
            false => ids.iter().find(fits).copied(),
            true => ids.iter().rev().find(fits).copied(),
        })
    }

    /// Somebody's turn has come: the others of the same tenant are behind all tenants now.
    pub(super) fn serve(&mut self, id: u64) {
        let turn = self.turn_of(id);
        self.remove(id);
        if let Some(turn) = turn.and_then(|turn| self.turns.iter().position(|(it, _)| *it == turn))
            && let Some(served) = self.turns.remove(turn)
        {
            self.turns.push_back(served);
        }
    }

    /// Somebody leaves.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(Member { tenant, .. }) = self.all.remove(&id) else { return };
        let Some(turn) = self.turns.iter().position(|(known, _)| *known == tenant) else { return };
        self.turns[turn].1.remove(&id);
        if self.turns[turn].1.is_empty() {
            self.turns.remove(turn);
        }
    }

    fn turn_of(&self, id: u64) -> Option<Party> {
        self.all.get(&id).map(|member| member.tenant.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Party {
        name.as_bytes().into()
    }

    /// Serves everybody.
    fn served(order: &mut Order, lifo: bool) -> Vec<u64> {
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
            let mut order = Order::default();
            (1..=4).for_each(|id| order.add(id, &tenant(""), 1));
            order.remove(3);
            assert_eq!(served(&mut order, lifo), expected);
        }
    }

    #[test]
    fn tenants_take_turns() {
        let mut order = Order::default();
        for (id, name) in
            [(1, "loud"), (2, "loud"), (3, "loud"), (4, "ann"), (5, "bob"), (6, "ann")]
        {
            order.add(id, &tenant(name), 1);
        }
        assert_eq!(served(&mut order, false), [1, 4, 5, 2, 6, 3]);
    }

    #[test]
    fn a_turn_of_some_cost_is_for_somebody_of_that_cost() {
        let mut order = Order::default();
        for (id, cost) in [(1, 5), (2, 1), (3, 5), (4, 1)] {
            order.add(id, &tenant(""), cost);
        }
        assert_eq!(order.next(false, Some(1)), Some(2));
        assert_eq!(order.next(true, Some(5)), Some(3));
        assert_eq!(order.next(false, Some(7)), None);
    }
}
