//! Waiting rooms: where requests stand in line that may go on later (`then: queue`, `then: delay`,
//! a request's own patience).
//!
//! Each rule somebody waits for has a room of its own, with a line for each key, and everybody in
//! it shares its places. There are two ways to stand in line:
//!
//! - **with a slot.** A rate that lets a request pass after a while charges it at once and says
//!   when. Those moments are kept in [`slots`], and who goes at which of them is up to the
//!   [order] of the line: a head that wakes late delays nobody but itself.
//! - **asking again.** For a place of a limit on concurrency nobody knows when it comes free. Who is
//!   refused stands in line having charged nothing; the first asks again when something may have
//!   changed, and nobody overtakes it.
//!
//! No task and no thread belongs to this: whoever is first in a line watches the clock for it, and
//! when it leaves, the next one is woken to do so. A request is in a room for as long as its future
//! lives.

mod admit;
mod crowd;
mod inside;
mod newcomer;
mod order;
mod place;
mod retry;
mod slots;
mod spot;

use std::sync::Arc;

pub use admit::Waits;
pub(super) use place::return_all;
pub(super) use spot::Turn;

use super::compiled::{Compiled, Domain, Rule};
use super::decision::{Decision, Reason};
use super::demand::Demands;
use super::held::{Held, HeldLine};
use super::policy::Then;
use crate::sync::{AtomicUsize, Mutex, Ordering, RwLock};
use inside::{Inside, Wakes};

/// All rooms that somebody is in.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    open: RwLock<Vec<Arc<Room>>>,
    /// How many requests are in any of them.
    inside: AtomicUsize,
    /// What was charged to requests that left while their store could not be told.
    unreturned: Mutex<Vec<Held>>,
    owes: AtomicUsize,
}

/// The waiting room of one rule.
#[derive(Debug)]
struct Room {
    domain: Box<str>,
    rule: Box<str>,
    /// The name of the rule's counters, which other rules may share.
    bucket: Box<str>,
    inside: Mutex<Inside>,
}

/// How many stand in line for a rule.
///
/// ```
/// use tollgate::Limiter;
/// let limiter = Limiter::from_rules("rules: [{ name: api, limit: 10/s }]".parse()?);
/// assert!(limiter.waiting().is_empty());
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InLine {
    /// Whose rule.
    pub domain: String,
    /// The rule.
    pub rule: String,
    /// How many stand in line for it.
    pub waiting: usize,
}

impl Room {
    fn new(rules: &Compiled, rule: &Rule) -> Room {
        let (domain, bucket) = (rules.domain.clone(), rule.bucket.clone());
        Room { domain, rule: rule.name.clone(), bucket, inside: Mutex::default() }
    }

    fn is_of(&self, domain: &str, rule: &str) -> bool {
        *self.rule == *rule && *self.domain == *domain
    }

    /// Does something in the room, and wakes whom it concerns once that is done.
    fn with<T>(&self, act: impl FnOnce(&mut Inside, &mut Wakes) -> T) -> T {
        let mut wakes = Wakes::new();
        let done = act(&mut self.inside.lock(), &mut wakes);
        wake(wakes);
        done
    }
}

impl Rooms {
    /// Whether anybody stands in line anywhere.
    #[inline]
    pub(crate) fn are_in_use(&self) -> bool {
        self.inside.load(Ordering::Relaxed) > 0
    }

    fn find(&self, domain: &str, rule: &str) -> Option<Arc<Room>> {
        self.open.read().iter().find(|room| room.is_of(domain, rule)).cloned()
    }

    /// Does something in the room of a rule, which is opened for it, and stays open if somebody
    /// came.
    fn join<T, E>(
        &self,
        rules: &Compiled,
        rule: &Rule,
        act: impl FnOnce(&mut Inside, &mut Wakes) -> Result<T, E>,
    ) -> Result<(Arc<Room>, T), E> {
        let mut open = self.open.write();
        let known = open.iter().find(|room| room.is_of(&rules.domain, &rule.name)).cloned();
        let room = known.unwrap_or_else(|| {
            let room = Arc::new(Room::new(rules, rule));
            open.push(room.clone());
            room
        });
        // Counted before its store is asked again: whoever frees something after that tells.
        self.inside.fetch_add(1, Ordering::Relaxed);
        let mut wakes = Wakes::new();
        let joined = act(&mut room.inside.lock(), &mut wakes);
        drop(open);
        wake(wakes);
        if joined.is_err() {
            self.gone(&room);
        }
        joined.map(|joined| (room, joined))
    }

    /// Somebody is no longer in a room; the last one closes it.
    fn gone(&self, room: &Arc<Room>) {
        self.inside.fetch_sub(1, Ordering::Relaxed);
        if room.inside.lock().is_empty() {
            let mut open = self.open.write();
            if room.inside.lock().is_empty() {
                open.retain(|other| !Arc::ptr_eq(other, room));
            }
        }
    }

    /// The refusal of a newcomer that must not ask its store, because it would find no place in a
    /// room or overtake those who wait there.
    #[cold]
    pub(super) fn gate(&self, domain: &Domain, demands: &Demands<'_>) -> Option<Decision> {
        let compiled = &domain.compiled;
        for demand in demands.demands.iter().filter(|demand| demand.enforced) {
            let rule = &compiled.rules[demand.rule as usize];
            if rule.then.patience().max(demands.patience).is_zero() {
                continue;
            }
            let Some(room) = self.find(&compiled.domain, &rule.name) else { continue };
            let key = &demands.keys[demand.key.clone()];
            // Which tenant it is of is not known yet: as if of one that has no place.
            let party = if rule.fair.is_some() { &[][..] } else { key };
            let (places, lifo) = places_of(&rule.then);
            let inside = room.inside.lock();
            let is_closed = match demands.turn {
                // It has a place in the room already.
                Turn::Roams(_) => inside.is_asked_for(key, lifo),
                _ => inside.is_closed_to(key, party, places, lifo),
            };
            if is_closed {
                let (rules, code) = (Some(compiled.clone()), rule.then.status());
                let mut refusal =
                    Decision::plain(false, Reason::OverLimit, code, Some(demand.rule), rules);
                refusal.key = Some(key.into());
                return Some(refusal);
            }
        }
        None
    }

    /// What a request held is free again: whoever waits for it asks.
    pub(super) fn released<'h>(&self, rules: &Compiled, lines: impl Iterator<Item = &'h HeldLine>) {
        let mut wakes = Wakes::new();
        for line in lines {
            let Some(Rule { bucket, .. }) = rules.rules.get(line.rule as usize) else { continue };
            let open = self.open.read();
            let shares = |room: &&Arc<Room>| room.bucket == *bucket && room.domain == rules.domain;
            let shared = open.iter().filter(shares);
            shared.for_each(|room| room.inside.lock().tell(&line.key, &mut wakes));
        }
        wake(wakes);
    }

    /// Anything may have come free.
    pub(super) fn tell_all(&self) {
        if self.are_in_use() {
            let mut wakes = Wakes::new();
            self.open.read().iter().for_each(|room| room.inside.lock().tell_all(&mut wakes));
            wake(wakes);
        }
    }

    /// How many stand in line for each rule that anybody waits for.
    pub(super) fn waiting(&self) -> Vec<InLine> {
        let rooms = self.open.read();
        let count = |room: &Arc<Room>| InLine {
            domain: room.domain.to_string(),
            rule: room.rule.to_string(),
            waiting: room.inside.lock().standing(),
        };
        rooms.iter().map(count).collect()
    }
}

/// Wakes them with no lock held: some executors go on right there.
fn wake(wakes: Wakes) {
    wakes.into_iter().for_each(|waker| waker.wake());
}

/// How many places the room of a rule has, and whether the newest goes first.
fn places_of(then: &Then) -> (u64, bool) {
    match then {
        Then::Queue(queue) => (queue.places, queue.lifo),
        _ => (u64::MAX, false),
    }
}
