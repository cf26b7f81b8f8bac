//! The state of a rule's queue: the key queues, which share its capacity. It has no clock and no
//! task; callers pass the time in and wake the returned wakers.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use tollgate_core::Time;

use super::queue_entry::{Departure, NextStep, QueueEntry, QueueFull, RetryTimes};
use super::queue_occupancy::QueueOccupancy;
use super::queue_order::QueueOrder;
use super::slots::{Slot, Slots};

/// The wakers to call once the queue is unlocked.
pub(super) type Wakers = SmallVec<[Waker; 2]>;

/// All waiting requests of a rule.
#[derive(Debug, Default)]
pub(super) struct QueueState {
    last_id: u64,
    waiters: HashMap<u64, Waiter>,
    queues: HashMap<Arc<[u8]>, KeyQueue>,
    occupancy: QueueOccupancy,
    /// The number of waiting requests that accept a permit of another key.
    alternatives_wanted: usize,
    /// When a position becomes free at the latest; none if it must be computed again.
    next_free: Option<Time>,
}

/// The queue of one key.
#[derive(Debug, Default)]
struct KeyQueue {
    /// Requests that are charged and wait for a slot.
    granted: QueueOrder,
    slots: Slots,
    /// Requests that are not charged yet; the first of them retries.
    retrying: QueueOrder,
    retry: RetryTimes,
    /// Whether capacity may have become free since the last retry.
    may_have_capacity: bool,
}

#[derive(Debug)]
struct Waiter {
    entry: QueueEntry,
    state: WaiterState,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaiterState {
    /// The request is charged and waits for its slot.
    Granted,
    /// The request is not charged and retries.
    Retrying,
    /// The request may proceed and owns this slot.
    Called(Slot),
    /// The request lost its position to another key.
    Displaced { refunds_charge: bool },
}

impl QueueState {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn waiting(&self) -> usize {
        self.occupancy.taken()
    }

    /// Whether an arriving request must not reach the store: the queue is full, or the request
    /// would overtake retrying ones.
    pub(super) fn refuses(&self, key: &[u8], share_key: &[u8], capacity: u64, lifo: bool) -> bool {
        !self.occupancy.has_capacity_for(share_key, capacity) || self.has_retrying_entry(key, lifo)
    }

    /// Whether a retrying request of this key must not be overtaken.
    pub(super) fn has_retrying_entry(&self, key: &[u8], lifo: bool) -> bool {
        !lifo && self.queues.get(key).is_some_and(|queue| !queue.retrying.is_empty())
    }

    /// Adds a request that is charged and may proceed at `at`; `was` is its id if it was retrying.
    pub(super) fn join_granted(
        &mut self,
        entry: QueueEntry,
        at: Time,
        was: Option<u64>,
        now: Time,
        wakers: &mut Wakers,
    ) -> Result<u64, QueueFull> {
        if let Some(was) = was {
            self.leave(was, now, wakers);
        }
        let id = self.enter(&entry, now, wakers)?;
        let queue = self.queues.entry(entry.key.clone()).or_default();
        queue.slots.add(Slot { at, cost: entry.cost });
        queue.granted.add(id, &entry.tenant, entry.cost);
        // A slot granted on another thread may be earlier than the one the clock is watched for.
        let watches = queue.granted.oldest().filter(|_| queue.slots.next() == Some(at));
        self.waiters.insert(id, Waiter { entry, state: WaiterState::Granted, waker: None });
        self.wake(watches, wakers);
        Ok(id)
    }

    /// Adds a request that will retry.
    pub(super) fn join_retrying(
        &mut self,
        entry: QueueEntry,
        now: Time,
        wakers: &mut Wakers,
    ) -> Result<u64, QueueFull> {
        let id = self.enter(&entry, now, wakers)?;
        let queue = self.queues.entry(entry.key.clone()).or_default();
        queue.retrying.add(id, &entry.tenant, entry.cost);
        // A permit may have been released before this request could be woken for it.
        queue.may_have_capacity |= queue.retrying.next(entry.lifo, None) == Some(id);
        self.alternatives_wanted += usize::from(entry.accepts_alternatives);
        self.waiters.insert(id, Waiter { entry, state: WaiterState::Retrying, waker: None });
        Ok(id)
    }

    /// Takes a queue position, if need be by displacing another request.
    fn enter(
        &mut self,
        entry: &QueueEntry,
        now: Time,
        wakers: &mut Wakers,
    ) -> Result<u64, QueueFull> {
        let QueueEntry { share_key, capacity, lifo, .. } = entry;
        if !self.occupancy.has_capacity_for(share_key, *capacity) {
            return Err(QueueFull(self.next_free()));
        }
        if let Some(displaced) = self.occupancy.entry_to_displace(share_key, *capacity, *lifo) {
            let refunds_charge = self.leave_queue(displaced, now, wakers);
            if let Some(waiter) = self.waiters.get_mut(&displaced) {
                waiter.state = WaiterState::Displaced { refunds_charge };
                wakers.extend(waiter.waker.take());
            }
        }
        self.last_id += 1;
        self.occupancy.add(share_key, self.last_id);
        self.next_free = None;
        Ok(self.last_id)
    }

    /// Removes a request in any state; returns whether its charge is refunded.
    pub(super) fn leave(&mut self, id: u64, now: Time, wakers: &mut Wakers) -> bool {
        let Some(state) = self.waiters.get(&id).map(|waiter| waiter.state) else { return false };
        let refunds_charge = match state {
            WaiterState::Displaced { refunds_charge } => refunds_charge,
            WaiterState::Granted | WaiterState::Retrying => self.leave_queue(id, now, wakers),
            WaiterState::Called(slot) => {
                // The unused slot goes to the next request.
                let QueueEntry { key, cost, takes, .. } = &self.waiters[&id].entry;
                let (key, cost, takes) = (key.clone(), *cost, *takes);
                let queue = self.queues.entry(key.clone()).or_default();
                queue.slots.put_back(slot);
                let refunds_charge = queue.slots.release(cost, takes);
                self.advance(&key, now, wakers);
                refunds_charge
            }
        };
        self.waiters.remove(&id);
        refunds_charge
    }

    /// Takes a request out of its key queue; returns whether its charge is refunded.
    fn leave_queue(&mut self, id: u64, now: Time, wakers: &mut Wakers) -> bool {
        let Some(Waiter { entry, state, .. }) = self.waiters.get(&id) else { return false };
        let (QueueEntry { key, share_key, cost, takes, lifo, accepts_alternatives, .. }, state) =
            (entry.clone(), *state);
        self.occupancy.remove(&share_key, id);
        self.next_free = None;
        let Some(queue) = self.queues.get_mut(&key) else { return false };
        if state == WaiterState::Granted {
            queue.granted.remove(id);
            let refunds_charge = queue.slots.release(cost, takes);
            self.advance(&key, now, wakers);
            return refunds_charge;
        }
        let was_next = queue.retrying.next(lifo, None) == Some(id);
        queue.retrying.remove(id);
        self.alternatives_wanted -= usize::from(accepts_alternatives);
        if was_next {
            queue.may_have_capacity = true;
            match queue.retrying.next(lifo, None) {
                Some(next) => self.wake(Some(next), wakers),
                // More permits may be free than the request would have taken.
                None => self.notify_alternatives(wakers),
            }
        }
        self.close(&key);
        false
    }

    /// Serves due requests after one has left, and wakes the one that watches the clock.
    fn advance(&mut self, key: &Arc<[u8]>, now: Time, wakers: &mut Wakers) {
        self.call_due(key, now, wakers);
        self.wake(self.queues.get(key).and_then(|queue| queue.granted.oldest()), wakers);
    }

    /// Lets all requests proceed whose slots are due.
    fn call_due(&mut self, key: &Arc<[u8]>, now: Time, wakers: &mut Wakers) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let watched = queue.granted.oldest();
        let mut called = SmallVec::<[(u64, Slot); 4]>::new();
        while let Some(slot) = queue.slots.take_due(now) {
            let lifo = watched.is_some_and(|id| self.waiters[&id].entry.lifo);
            if let Some(id) = queue.granted.next(lifo, Some(slot.cost)) {
                queue.granted.serve(id);
                called.push((id, slot));
            }
        }
        let watches = queue.granted.oldest();
        for (id, slot) in called {
            if let Some(waiter) = self.waiters.get_mut(&id) {
                waiter.state = WaiterState::Called(slot);
                wakers.extend(waiter.waker.take());
                self.occupancy.remove(&waiter.entry.share_key, id);
                self.next_free = None;
            }
        }
        if watches != watched {
            self.wake(watches, wakers);
        }
        self.close(key);
    }

    /// Removes an empty key queue.
    fn close(&mut self, key: &Arc<[u8]>) {
        if let Some(queue) = self.queues.get(key)
            && queue.granted.is_empty()
            && queue.retrying.is_empty()
        {
            self.queues.remove(key);
        }
    }

    fn wake(&mut self, id: Option<u64>, wakers: &mut Wakers) {
        let waiter = id.and_then(|id| self.waiters.get_mut(&id));
        wakers.extend(waiter.and_then(|waiter| waiter.waker.take()));
    }

    /// Returns the next step of a request; `waker` is woken when that changes.
    pub(super) fn next(
        &mut self,
        id: u64,
        now: Time,
        waker: &Waker,
        wakers: &mut Wakers,
    ) -> NextStep {
        let Some(waiter) = self.waiters.get(&id) else { return self.remove_entry(id, now, wakers) };
        let key = waiter.entry.key.clone();
        if waiter.state == WaiterState::Granted {
            self.call_due(&key, now, wakers);
        }
        let Some(waiter) = self.waiters.get(&id) else { return self.remove_entry(id, now, wakers) };
        let QueueEntry { deadline, lifo, fair, .. } = waiter.entry;
        let until = match (waiter.state, self.queues.get_mut(&key)) {
            (WaiterState::Called(_), _) => {
                self.waiters.remove(&id);
                return NextStep::Go;
            }
            (WaiterState::Granted, Some(queue)) => {
                let watches = queue.granted.oldest() == Some(id);
                let slot = queue.slots.next().filter(|_| watches);
                // In FIFO order no request waits longer than its slot says.
                let latest = (lifo || fair).then_some(deadline);
                [slot, latest].into_iter().flatten().min()
            }
            (WaiterState::Retrying, Some(queue)) => {
                let is_next = queue.retrying.next(lifo, None) == Some(id);
                let is_time = queue.retry.at.is_some_and(|at| at <= now);
                if is_next && (queue.may_have_capacity || is_time) {
                    (queue.may_have_capacity, queue.retry.at) = (false, None);
                    return NextStep::Retry;
                }
                let retry_at = queue.retry.at.filter(|_| is_next);
                [retry_at, Some(deadline)].into_iter().flatten().min()
            }
            _ => return self.remove_entry(id, now, wakers),
        };
        if until.is_some_and(|until| until <= now) {
            return self.remove_entry(id, now, wakers);
        }
        if let Some(waiter) = self.waiters.get_mut(&id) {
            match &mut waiter.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
        NextStep::Wait(until)
    }

    fn remove_entry(&mut self, id: u64, now: Time, wakers: &mut Wakers) -> NextStep {
        let state = self.waiters.get(&id).map(|waiter| waiter.state);
        let is_late = matches!(state, Some(WaiterState::Granted | WaiterState::Retrying));
        let refunds_charge = self.leave(id, now, wakers);
        NextStep::Leave(Departure { is_late, refunds_charge, next_free: self.next_free() })
    }

    /// Records that a retry was refused.
    pub(super) fn refused(&mut self, id: u64, retry: RetryTimes) {
        let queue = self.waiters.get(&id).and_then(|it| self.queues.get_mut(&it.entry.key));
        if let Some(queue) = queue {
            queue.retry = retry;
            self.next_free = None;
        }
    }

    /// Wakes the first retrying request of a key, whose capacity became free.
    pub(super) fn notify(&mut self, key: &[u8], wakers: &mut Wakers) {
        let Some(next) = self.queues.get(key).and_then(|queue| self.next_to_ask(queue)) else {
            return self.notify_alternatives(wakers);
        };
        if let Some(queue) = self.queues.get_mut(key) {
            queue.may_have_capacity = true;
        }
        self.wake(Some(next), wakers);
    }

    fn next_to_ask(&self, queue: &KeyQueue) -> Option<u64> {
        let lifo = self.waiters[&queue.retrying.oldest()?].entry.lifo;
        queue.retrying.next(lifo, None)
    }

    /// Wakes the oldest request that accepts alternatives, because capacity became free for a key
    /// without waiting requests.
    fn notify_alternatives(&mut self, wakers: &mut Wakers) {
        if self.alternatives_wanted == 0 {
            return;
        }
        let next = self.queues.values().filter_map(|queue| self.next_to_ask(queue));
        let accepts_alternatives = |id: &u64| self.waiters[id].entry.accepts_alternatives;
        let Some(first) = next.filter(accepts_alternatives).min() else { return };
        let queue = self.queues.get_mut(&self.waiters[&first].entry.key);
        queue.into_iter().for_each(|queue| queue.may_have_capacity = true);
        self.wake(Some(first), wakers);
    }

    /// Wakes the first retrying request of every key.
    pub(super) fn wake_all(&mut self, wakers: &mut Wakers) {
        let keys: Vec<Arc<[u8]>> = self.queues.keys().cloned().collect();
        keys.iter().for_each(|key| self.notify(key, wakers));
    }

    /// Returns when a position becomes free at the latest.
    fn next_free(&mut self) -> Option<Time> {
        if self.next_free.is_none() {
            let slots = self.queues.values().filter_map(|queue| queue.slots.next());
            let retrying =
                self.waiters.values().filter(|waiter| waiter.state == WaiterState::Retrying);
            let deadlines = retrying.map(|waiter| waiter.entry.deadline);
            let retries = self.queues.values().filter_map(|queue| queue.retry.passes_at);
            self.next_free = slots.chain(deadlines).chain(retries).min();
        }
        self.next_free
    }
}
