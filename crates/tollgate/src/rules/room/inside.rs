//! A waiting room: the lines of all keys of a rule, which share its places. Knows no clock and no
//! task: it is told what time it is, and says whom to wake.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use tollgate_core::Time;

use super::crowd::Crowd;
use super::newcomer::{Again, Full, Leave, Newcomer, Next};
use super::order::Order;
use super::slots::{Slot, Slots};

/// Those to wake once the room is no longer locked.
pub(super) type Wakes = SmallVec<[Waker; 2]>;

/// Everybody in a waiting room.
#[derive(Debug, Default)]
pub(super) struct Inside {
    last_id: u64,
    waiters: HashMap<u64, Waiter>,
    lines: HashMap<Arc<[u8]>, Line>,
    crowd: Crowd,
    /// How many would ask for another key as well.
    roaming: usize,
    /// When a place comes free at the latest, if that is known to be still true.
    next_free: Option<Time>,
}

/// The line of a key.
#[derive(Debug, Default)]
struct Line {
    /// Those who were charged, and when the next of them may go.
    granted: Order,
    slots: Slots,
    /// Those who were not: the first of them asks again.
    askers: Order,
    again: Again,
    /// Something came free, or may have.
    news: bool,
}

#[derive(Debug)]
struct Waiter {
    newcomer: Newcomer,
    state: State,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Stands in line, charged already.
    Granted,
    /// Stands in line and is yet to be charged.
    Asking,
    /// May go; the slot is its own.
    Called(Slot),
    /// Gave its place to another.
    Displaced { gives_back: bool },
}

impl Inside {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn standing(&self) -> usize {
        self.crowd.taken()
    }

    /// Whether a newcomer must not go on to the store: it would find no place, or it would overtake
    /// those who ask.
    pub(super) fn is_closed_to(&self, key: &[u8], party: &[u8], places: u64, lifo: bool) -> bool {
        !self.crowd.has_room_for(party, places) || self.is_asked_for(key, lifo)
    }

    /// Whether somebody asks for a key who must not be overtaken.
    pub(super) fn is_asked_for(&self, key: &[u8], lifo: bool) -> bool {
        !lifo && self.lines.get(key).is_some_and(|line| !line.askers.is_empty())
    }

    /// Somebody was charged and may go at `at`. Comes from among those who ask if it stood there.
    pub(super) fn join_granted(
        &mut self,
        newcomer: Newcomer,
        at: Time,
        was: Option<u64>,
        now: Time,
        wakes: &mut Wakes,
    ) -> Result<u64, Full> {
        if let Some(was) = was {
            self.leave(was, now, wakes);
        }
        let id = self.enter(&newcomer, now, wakes)?;
        let line = self.lines.entry(newcomer.key.clone()).or_default();
        line.slots.add(Slot { at, cost: newcomer.cost });
        line.granted.add(id, &newcomer.tenant, newcomer.cost);
        // Granted elsewhere at the same time, it may be earlier than what is waited for.
        let watches = line.granted.oldest().filter(|_| line.slots.next() == Some(at));
        self.waiters.insert(id, Waiter { newcomer, state: State::Granted, waker: None });
        self.wake(watches, wakes);
        Ok(id)
    }

    /// Somebody will ask again.
    pub(super) fn join_asking(
        &mut self,
        newcomer: Newcomer,
        now: Time,
        wakes: &mut Wakes,
    ) -> Result<u64, Full> {
        let id = self.enter(&newcomer, now, wakes)?;
        let line = self.lines.entry(newcomer.key.clone()).or_default();
        line.askers.add(id, &newcomer.tenant, newcomer.cost);
        // Something may have come free before anybody could be told that this one waits for it.
        line.news |= line.askers.next(newcomer.lifo, None) == Some(id);
        self.roaming += usize::from(newcomer.roams);
        self.waiters.insert(id, Waiter { newcomer, state: State::Asking, waker: None });
        Ok(id)
    }

    /// Takes a place, if need be another's.
    fn enter(&mut self, newcomer: &Newcomer, now: Time, wakes: &mut Wakes) -> Result<u64, Full> {
        let Newcomer { party, places, lifo, .. } = newcomer;
        if !self.crowd.has_room_for(party, *places) {
            return Err(Full(self.next_free()));
        }
        if let Some(greedy) = self.crowd.gives_way(party, *places, *lifo) {
            let gives_back = self.step_out(greedy, now, wakes);
            if let Some(waiter) = self.waiters.get_mut(&greedy) {
                waiter.state = State::Displaced { gives_back };
                wakes.extend(waiter.waker.take());
            }
        }
        self.last_id += 1;
        self.crowd.add(party, self.last_id);
        self.next_free = None;
        Ok(self.last_id)
    }

    /// Somebody is gone, whatever it was doing. Whether its charge is to be given back.
    pub(super) fn leave(&mut self, id: u64, now: Time, wakes: &mut Wakes) -> bool {
        let Some(state) = self.waiters.get(&id).map(|waiter| waiter.state) else { return false };
        let gives_back = match state {
            State::Displaced { gives_back } => gives_back,
            State::Granted | State::Asking => self.step_out(id, now, wakes),
            State::Called(slot) => {
                // Its turn had come, and now it is the next one's.
                let Newcomer { key, cost, takes, .. } = &self.waiters[&id].newcomer;
                let (key, cost, takes) = (key.clone(), *cost, *takes);
                let line = self.lines.entry(key.clone()).or_default();
                line.slots.put_back(slot);
                let gives_back = line.slots.give_up(cost, takes);
                self.move_up(&key, now, wakes);
                gives_back
            }
        };
        self.waiters.remove(&id);
        gives_back
    }

    /// Takes somebody out of its line. Whether its charge is to be given back.
    fn step_out(&mut self, id: u64, now: Time, wakes: &mut Wakes) -> bool {
        let Some(Waiter { newcomer, state, .. }) = self.waiters.get(&id) else { return false };
        let (Newcomer { key, party, cost, takes, lifo, roams, .. }, state) =
            (newcomer.clone(), *state);
        self.crowd.remove(&party, id);
        self.next_free = None;
        let Some(line) = self.lines.get_mut(&key) else { return false };
        if state == State::Granted {
            line.granted.remove(id);
            let gives_back = line.slots.give_up(cost, takes);
            self.move_up(&key, now, wakes);
            return gives_back;
        }
        let was_next = line.askers.next(lifo, None) == Some(id);
        line.askers.remove(id);
        self.roaming -= usize::from(roams);
        if was_next {
            line.news = true;
            match line.askers.next(lifo, None) {
                Some(next) => self.wake(Some(next), wakes),
                // There may be more than it took.
                None => self.tell_roaming(wakes),
            }
        }
        self.close(&key);
        false
    }

    /// Somebody left: others may go now, and whoever watches the clock must learn that it does.
    fn move_up(&mut self, key: &Arc<[u8]>, now: Time, wakes: &mut Wakes) {
        self.call_due(key, now, wakes);
        self.wake(self.lines.get(key).and_then(|line| line.granted.oldest()), wakes);
    }

    /// Lets everybody go whose time has come.
    fn call_due(&mut self, key: &Arc<[u8]>, now: Time, wakes: &mut Wakes) {
        let Some(line) = self.lines.get_mut(key) else { return };
        let watched = line.granted.oldest();
        let mut called = SmallVec::<[(u64, Slot); 4]>::new();
        while let Some(slot) = line.slots.take_due(now) {
            let lifo = watched.is_some_and(|id| self.waiters[&id].newcomer.lifo);
            if let Some(id) = line.granted.next(lifo, Some(slot.cost)) {
                line.granted.serve(id);
                called.push((id, slot));
            }
        }
        let watches = line.granted.oldest();
        for (id, slot) in called {
            if let Some(waiter) = self.waiters.get_mut(&id) {
                waiter.state = State::Called(slot);
                wakes.extend(waiter.waker.take());
                self.crowd.remove(&waiter.newcomer.party, id);
                self.next_free = None;
            }
        }
        if watches != watched {
            self.wake(watches, wakes);
        }
        self.close(key);
    }

    /// Forgets a line that nobody stands in.
    fn close(&mut self, key: &Arc<[u8]>) {
        if let Some(line) = self.lines.get(key)
            && line.granted.is_empty()
            && line.askers.is_empty()
        {
            self.lines.remove(key);
        }
    }

    fn wake(&mut self, id: Option<u64>, wakes: &mut Wakes) {
        let waiter = id.and_then(|id| self.waiters.get_mut(&id));
        wakes.extend(waiter.and_then(|waiter| waiter.waker.take()));
    }

    /// What somebody in line is to do now; `waker` wakes it if that changes.
    pub(super) fn next(&mut self, id: u64, now: Time, waker: &Waker, wakes: &mut Wakes) -> Next {
        let Some(waiter) = self.waiters.get(&id) else { return self.send_away(id, now, wakes) };
        let key = waiter.newcomer.key.clone();
        if waiter.state == State::Granted {
            self.call_due(&key, now, wakes);
        }
        let Some(waiter) = self.waiters.get(&id) else { return self.send_away(id, now, wakes) };
        let Newcomer { deadline, lifo, fair, .. } = waiter.newcomer;
        let until = match (waiter.state, self.lines.get_mut(&key)) {
            (State::Called(_), _) => {
                self.waiters.remove(&id);
                return Next::Go;
            }
            (State::Granted, Some(line)) => {
                let watches = line.granted.oldest() == Some(id);
                let slot = line.slots.next().filter(|_| watches);
                // In turn nobody waits longer than what it was granted.
                let latest = (lifo || fair).then_some(deadline);
                [slot, latest].into_iter().flatten().min()
            }
            (State::Asking, Some(line)) => {
                let is_next = line.askers.next(lifo, None) == Some(id);
                let is_time = line.again.at.is_some_and(|at| at <= now);
                if is_next && (line.news || is_time) {
                    (line.news, line.again.at) = (false, None);
                    return Next::Ask;
                }
                let again_at = line.again.at.filter(|_| is_next);
                [again_at, Some(deadline)].into_iter().flatten().min()
            }
            _ => return self.send_away(id, now, wakes),
        };
        if until.is_some_and(|until| until <= now) {
            return self.send_away(id, now, wakes);
        }
        if let Some(waiter) = self.waiters.get_mut(&id) {
            match &mut waiter.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
        Next::Wait(until)
    }

    fn send_away(&mut self, id: u64, now: Time, wakes: &mut Wakes) -> Next {
        let state = self.waiters.get(&id).map(|waiter| waiter.state);
        let is_late = matches!(state, Some(State::Granted | State::Asking));
        let gives_back = self.leave(id, now, wakes);
        Next::Leave(Leave { is_late, gives_back, next_free: self.next_free() })
    }

    /// Somebody asked and was refused.
    pub(super) fn refused(&mut self, id: u64, again: Again) {
        let line = self.waiters.get(&id).and_then(|it| self.lines.get_mut(&it.newcomer.key));
        if let Some(line) = line {
            line.again = again;
            self.next_free = None;
        }
    }

    /// Something came free for a key.
    pub(super) fn tell(&mut self, key: &[u8], wakes: &mut Wakes) {
        let Some(next) = self.lines.get(key).and_then(|line| self.next_to_ask(line)) else {
            return self.tell_roaming(wakes);
        };
        if let Some(line) = self.lines.get_mut(key) {
            line.news = true;
        }
        self.wake(Some(next), wakes);
    }

    fn next_to_ask(&self, line: &Line) -> Option<u64> {
        let lifo = self.waiters[&line.askers.oldest()?].newcomer.lifo;
        line.askers.next(lifo, None)
    }

    /// Something came free that nobody stands in line for: whoever waited longest for the like of it
    /// may have it.
    fn tell_roaming(&mut self, wakes: &mut Wakes) {
        if self.roaming == 0 {
            return;
        }
        let next = self.lines.values().filter_map(|line| self.next_to_ask(line));
        let roams = |id: &u64| self.waiters[id].newcomer.roams;
        let Some(first) = next.filter(roams).min() else { return };
        let line = self.lines.get_mut(&self.waiters[&first].newcomer.key);
        line.into_iter().for_each(|line| line.news = true);
        self.wake(Some(first), wakes);
    }

    /// Something may have come free for any key.
    pub(super) fn tell_all(&mut self, wakes: &mut Wakes) {
        let keys: Vec<Arc<[u8]>> = self.lines.keys().cloned().collect();
        keys.iter().for_each(|key| self.tell(key, wakes));
    }

    /// When a place comes free at the latest.
    fn next_free(&mut self) -> Option<Time> {
        if self.next_free.is_none() {
            let slots = self.lines.values().filter_map(|line| line.slots.next());
            let asking = self.waiters.values().filter(|waiter| waiter.state == State::Asking);
            let deadlines = asking.map(|waiter| waiter.newcomer.deadline);
            let retries = self.lines.values().filter_map(|line| line.again.passes_at);
            self.next_free = slots.chain(deadlines).chain(retries).min();
        }
        self.next_free
    }
}
