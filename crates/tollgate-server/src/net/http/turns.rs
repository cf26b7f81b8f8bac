//! Whose turn it is with each body that is being sent: ours, or its reader's.
//!
//! A client of HTTP/2 can read from its connection and still take nothing of an answer: it opens no
//! window for it. Nothing is blocked then, nobody is silent, and whoever made the answer waits. Such
//! bodies are counted by the look at which they began to wait, so that one that is found waiting
//! again costs neither a timer nor a list.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bodies that wait for their readers: since the last look, and since the one before.
#[derive(Debug, Default)]
pub(super) struct Turns {
    looks: AtomicU32,
    waiting: [AtomicU32; 2],
}

/// Since which look a body waits, if it does.
#[derive(Debug, Default)]
pub(super) struct Since(Option<u32>);

impl Turns {
    /// Whether a body has been waiting for its reader all the time since the last look.
    pub(super) fn look(&self) -> bool {
        let next = self.looks.load(Ordering::Relaxed).wrapping_add(1);
        self.looks.store(next, Ordering::Relaxed);
        self.of(next).load(Ordering::Relaxed) > 0
    }

    /// It is the reader's turn: it was given something, or there is something to give.
    pub(super) fn readers(&self, since: &mut Since) {
        let now = self.looks.load(Ordering::Relaxed);
        if since.0 != Some(now) {
            self.ours(since);
            since.0 = Some(now);
            self.of(now).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It is our turn, or there will be none any more.
    pub(super) fn ours(&self, since: &mut Since) {
        if let Some(look) = since.0.take() {
            self.of(look).fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn of(&self, look: u32) -> &AtomicU32 {
        &self.waiting[look as usize % 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_waits_from_look_to_look_is_found() {
        let turns = Turns::default();
        let (mut slow, mut quick) = (Since::default(), Since::default());
        turns.readers(&mut slow);
        turns.readers(&mut quick);
        assert!(!turns.look(), "not yet");
        turns.readers(&mut quick);
        assert!(turns.look(), "one has taken nothing since");
        turns.ours(&mut slow);
        turns.readers(&mut quick);
        assert!(!turns.look());
        turns.ours(&mut quick);
        assert!(!turns.look() && !turns.look(), "nobody waits");
    }
}
