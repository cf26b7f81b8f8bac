//! A place in line, for as long as its request waits.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tollgate_core::{Span, Time};

use super::newcomer::{Again, Full, Leave, Newcomer, Next};
use super::spot::{Kind, Spot};
use super::{Room, Rooms};
use crate::Store;
use crate::clock::Sleep;
use crate::rules::decision::Decision;
use crate::rules::held::Held;
use crate::rules::limiter::Shared;
use crate::sync::Ordering;

/// Somebody else may free something at a shared store: asks again after at least half of this.
const OFTEN: Span = Span::from_millis(50);

/// What a request was charged, until it goes on: dropped before, that goes back.
pub(super) struct Charge<'w, S: Store> {
    limiter: &'w Shared<S>,
    held: Option<Box<Held>>,
}

impl<'w, S: Store> Charge<'w, S> {
    pub(super) fn of(limiter: &'w Shared<S>, decision: &mut Decision) -> Charge<'w, S> {
        Charge { limiter, held: decision.held.take() }
    }

    /// It goes on.
    pub(super) fn keep(mut self, decision: &mut Decision) {
        decision.held = self.held.take();
    }

    /// It does not, but its turn is lost: what others stand behind stays charged.
    pub(super) fn forfeit(mut self) {
        self.held = None;
    }
}

impl<S: Store> Drop for Charge<'_, S> {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.limiter.rooms.give_back_soon(*held);
        // In memory that is at once; elsewhere it is up to whoever comes next.
        if !self.limiter.store.is_shared() {
            let mut context = Context::from_waker(Waker::noop());
            let _ = std::pin::pin!(return_all(self.limiter)).poll(&mut context);
        }
    }
}

impl Rooms {
    /// Whether anything is to be given back. One for each that comes keeps up with those who leave,
    /// and holds nobody up for long.
    #[inline]
    pub(super) fn owe(&self) -> bool {
        self.owes.load(Ordering::Relaxed) > 0
    }

    fn give_back_soon(&self, held: Held) {
        self.owes.fetch_add(1, Ordering::Relaxed);
        self.unreturned.lock().push(held);
    }
}

/// Gives back what was charged to those who left.
pub(in crate::rules) async fn return_all<S: Store>(limiter: &Shared<S>) {
    while return_one(limiter).await {}
}

/// The same of one of them; whether there was any.
pub(super) async fn return_one<S: Store>(limiter: &Shared<S>) -> bool {
    let Some(held) = limiter.rooms.unreturned.lock().pop() else { return false };
    limiter.rooms.owes.fetch_sub(1, Ordering::Relaxed);
    // A store that does not answer is the store's to report.
    let _ = held.give_back(limiter).await;
    if held.has_places() {
        limiter.rooms.tell_all();
    }
    true
}

/// A place in line. Dropped, it is another's.
pub(super) struct Place<'w, S: Store> {
    limiter: &'w Shared<S>,
    room: Arc<Room>,
    key: Arc<[u8]>,
    id: u64,
    /// What was charged, if it has a slot.
    charge: Option<Charge<'w, S>>,
    is_out: bool,
}

/// What became of somebody in line.
pub(super) enum Fate<'w, S: Store> {
    /// It may go on; what it was charged.
    Go(Option<Charge<'w, S>>),
    /// It may ask again, and still has its place.
    Ask(Place<'w, S>),
    /// It has lost its place, or patience.
    Lost(Leave),
}

impl<'w, S: Store> Place<'w, S> {
    /// Stands where it is told to; `was` is the place it has already, if it has one.
    pub(super) fn take(
        limiter: &'w Shared<S>,
        spot: &Spot,
        charge: Option<Charge<'w, S>>,
        was: Option<Place<'w, S>>,
    ) -> Result<Place<'w, S>, Full> {
        let now = limiter.clock.now();
        let newcomer: Newcomer = spot.newcomer.clone();
        let joined =
            limiter.rooms.join(&spot.rules, spot.rule(), |inside, wakes| match spot.kind {
                Kind::Slot { at, .. } => {
                    let was = was.as_ref().filter(|place| place.is_at(spot)).map(|it| it.id);
                    inside.join_granted(newcomer, at, was, now, wakes)
                }
                Kind::Line(_) => inside.join_asking(newcomer, now, wakes),
            });
        drop(was);
        let (room, id) = joined?;
        let key = spot.newcomer.key.clone();
        Ok(Place { limiter, room, key, id, charge, is_out: false })
    }

    /// Whether this is where it is told to stand.
    pub(super) fn is_at(&self, spot: &Spot) -> bool {
        self.key == spot.newcomer.key && self.room.is_of(&spot.rules.domain, &spot.rule().name)
    }

    /// It asked again and was refused.
    pub(super) fn refused(&self, again: Again) {
        let again = Again { at: self.limiter.asks_at(again.at), ..again };
        self.room.with(|inside, _| inside.refused(self.id, again));
    }

    /// Waits until something is to be done.
    pub(super) async fn wait(mut self) -> Fate<'w, S> {
        let mut timer: Option<(Time, Sleep)> = None;
        let next = poll_fn(|context| self.poll_next(&mut timer, context)).await;
        match next {
            Next::Ask => Fate::Ask(self),
            Next::Go => {
                self.is_out = true;
                Fate::Go(self.charge.take())
            }
            Next::Leave(leave) => {
                self.is_out = true;
                if let Some(charge) = self.charge.take().filter(|_| !leave.gives_back) {
                    charge.forfeit();
                }
                Fate::Lost(leave)
            }
            Next::Wait(_) => unreachable!("waited for"),
        }
    }

    fn poll_next(
        &self,
        timer: &mut Option<(Time, Sleep)>,
        context: &mut Context<'_>,
    ) -> Poll<Next> {
        loop {
            let now = self.limiter.clock.now();
            let next =
                self.room.with(|inside, wakes| inside.next(self.id, now, context.waker(), wakes));
            let Next::Wait(until) = next else { return Poll::Ready(next) };
            let Some(until) = until else { return Poll::Pending };
            if timer.as_ref().is_none_or(|(at, _)| *at != until) {
                *timer = Some((until, self.limiter.clock.sleep_until(until)));
            }
            if let Some((_, sleep)) = timer {
                ready!(Pin::new(sleep).poll(context));
            }
        }
    }
}

impl<S: Store> Drop for Place<'_, S> {
    fn drop(&mut self) {
        if !self.is_out {
            let now = self.limiter.clock.now();
            let gives_back = self.room.with(|inside, wakes| inside.leave(self.id, now, wakes));
            if let Some(charge) = self.charge.take().filter(|_| !gives_back) {
                charge.forfeit();
            }
        }
        self.limiter.rooms.gone(&self.room);
    }
}

impl<S: Store> Shared<S> {
    /// When to ask again where it would make sense at `at`: sooner, if others may free something
    /// without telling.
    fn asks_at(&self, at: Option<Time>) -> Option<Time> {
        if !self.store.is_shared() {
            return at;
        }
        // Nodes that were refused together do not ask together.
        let half = OFTEN.as_nanos() / 2;
        let soon = self.clock.now() + Span::from_nanos(half + crate::counters::new_lease() % half);
        Some(at.map_or(soon, |at| at.min(soon)))
    }
}
