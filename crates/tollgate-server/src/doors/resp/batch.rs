//! Decisions asked for one after the other, made together.
//!
//! A client that sends many commands at once waits for all their answers anyway. Decided together,
//! the clock is read once for all of them and their waits for memory overlap.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Check, Key};

use super::fields;
use super::reply::Replies;
use super::request::Place;
use crate::engine::{Brought, Engine};
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
    pub(super) fn decide(&mut self, engine: &Engine, received: &[u8], replies: &mut Replies) {
        if self.asked.is_empty() {
            return;
        }
        let limit = |asked: &Asked| &self.limits[usize::from(asked.limit.0)];
        let check = |asked: &Asked| {
            let Brought { limit, bucket } = &*self.limits[usize::from(asked.limit.0)].brought;
            Check::new(*bucket, Key::Bytes(asked.key.of(received)), limit, asked.cost)
        };
        // Filled where it stands: moving it would cost more than a decision.
        let mut checks = SmallVec::<[Check<'_>; MOST]>::new();
        checks.extend(self.asked.iter().map(check));
        let mut forms = self.asked.iter().map(|asked| limit(asked).form);
        engine.limit_each(DoorName::Resp, &checks, |verdict| match forms.next() {
            Some(Form::Fields) => fields::of_limit(&verdict, replies),
            _ => replies.throttle(&verdict),
        });
        self.asked.clear();
    }
}
