//! Decisions asked for one after the other, made together.
//!
//! A client that sends many commands at once waits for all their answers anyway. Decided together,
//! the clock is read once for all of them and their waits for memory overlap.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Check, MemoryStore, Verdict};

use super::fields;
use super::reply::Replies;
use super::request::Place;
use crate::engine::{Brought, Engine};
use crate::store::{AnyStore, Shared};
use crate::telemetry::DoorName;

/// So many are decided together.
const MOST: usize = 64;
/// So many limits a connection has at hand.
const AT_HAND: usize = 8;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As redis-cell does.
    Throttle,
    /// By the names of its fields.
    Fields,
}

/// What is yet to be decided, and the limits it is about.
#[derive(Debug, Default)]
pub(super) struct Batch {
    asked: Vec<Asked>,
    limits: Vec<AtHand>,
    /// Which limit gives way to the next new one.
    oldest: usize,
}

#[derive(Debug)]
struct Asked {
    key: Place,
    cost: u64,
    limit: Handle,
}

/// A limit and how it was written.
#[derive(Debug)]
struct AtHand {
    form: Form,
    written: Box<[u8]>,
    brought: Arc<Brought>,
}

/// A limit at hand, good until the next one is [kept](Batch::keep).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle(u8);

impl Batch {
    /// A limit that was written like this before.
    #[inline]
    pub(super) fn find(&self, form: Form, written: &[u8]) -> Option<Handle> {
        let same = |known: &AtHand| known.form == form && *known.written == *written;
        self.limits.iter().position(same).map(|found| Handle(found as u8))
    }

    /// Keeps a limit at hand. It may take the place of one that is asked about: decide first.
    pub(super) fn keep(&mut self, form: Form, written: &[u8], brought: Arc<Brought>) {
        debug_assert!(self.asked.is_empty(), "decided first");
        let limit = AtHand { form, written: written.into(), brought };
        if self.limits.len() < AT_HAND {
            self.limits.push(limit);
            return;
        }
        self.limits[self.oldest] = limit;
        self.oldest = (self.oldest + 1) % AT_HAND;
    }

    /// Asks about a key; whether that is enough for now.
    #[inline]
    pub(super) fn ask(&mut self, key: Place, limit: Handle, cost: u64) -> bool {
        self.asked.push(Asked { key, cost, limit });
        self.asked.len() >= MOST
    }

    /// Decides all that was asked, in order. `received` is where the keys are.
    #[inline]
    pub(super) async fn decide(&mut self, engine: &Engine, received: &[u8], replies: &mut Replies) {
        if self.asked.is_empty() {
            return;
        }
        match engine.store() {
            AnyStore::Memory(store) => self.decide_here(engine, store, received, replies),
            // In a box: every connection would be as large as all that is asked at once.
            AnyStore::Redis(store) => {
                Box::pin(self.decide_elsewhere(engine, store, received, replies)).await;
            }
        }
        self.asked.clear();
    }

    fn decide_here(
        &self,
        engine: &Engine,
        store: &MemoryStore,
        received: &[u8],
        replies: &mut Replies,
    ) {
        // Filled where it stands: moving it would cost more than a decision.
        let mut checks = SmallVec::<[Check<'_>; MOST]>::new();
        checks.extend(self.checks(received));
        let mut forms = self.forms();
        engine.limit_each(store, DoorName::Resp, &checks, |verdict| {
            if let Some(form) = forms.next() {
                write(form, &verdict, replies);
            }
        });
    }

    async fn decide_elsewhere(
        &self,
        engine: &Engine,
        store: &Shared,
        received: &[u8],
        replies: &mut Replies,
    ) {
        let checks: Vec<Check<'_>> = self.checks(received).collect();
        let verdicts = engine.limit_each_elsewhere(store, DoorName::Resp, &checks).await;
        for (form, verdict) in self.forms().zip(verdicts) {
            match verdict {
                Ok(verdict) => write(form, &verdict, replies),
                Err(error) => replies.error(&format!("ERR {error}")),
            }
        }
    }

    fn checks<'c>(&'c self, received: &'c [u8]) -> impl Iterator<Item = Check<'c>> {
        self.asked.iter().map(|asked| {
            let brought = &self.limits[usize::from(asked.limit.0)].brought;
            brought.check(asked.key.of(received), asked.cost)
        })
    }

    fn forms(&self) -> impl Iterator<Item = Form> {
        self.asked.iter().map(|asked| self.limits[usize::from(asked.limit.0)].form)
    }
}

#[inline]
fn write(form: Form, verdict: &Verdict, replies: &mut Replies) {
    match form {
        Form::Fields => fields::of_limit(verdict, replies),
        Form::Throttle => replies.throttle(verdict),
    }
}
