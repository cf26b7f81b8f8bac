//! The live tail: who watches decisions, and what each wants to see.
//!
//! A decision never waits for who watches: each has a bounded buffer, and what does not fit is
//! counted instead.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use super::event::Event;

/// How many may watch at once.
const MOST: usize = 16;
/// What waits for each.
const BUFFER: usize = 256;

/// What a watcher wants to see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) domain: Option<String>,
    pub(crate) rule: Option<String>,
    /// Only refusals, or only what passes.
    pub(crate) refused: Option<bool>,
    /// Which share of it, from 0 to 1; all unless given.
    pub(crate) share: Option<f64>,
}

impl Wanted {
    pub(super) fn covers(&self, event: &Event) -> bool {
        let refused = |wanted| event.outcome.is_refusal() == wanted;
        if !self.refused.is_none_or(refused) {
            return false;
        }
        if self.domain.is_none() && self.rule.is_none() {
            return true;
        }
        let parts = event.parts();
        self.domain.as_ref().is_none_or(|domain| *domain == parts.domain)
            && self.rule.as_ref().is_none_or(|rule| *rule == parts.rule)
    }
}

/// Everybody who watches.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    count: AtomicUsize,
    all: ArcSwap<Vec<Arc<Watcher>>>,
}

#[derive(Debug)]
struct Watcher {
    wanted: Wanted,
    sender: mpsc::Sender<Arc<str>>,
    dropped: AtomicU64,
}

/// What one watcher sees. Ends the watching when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watchers: Arc<Watchers>,
    me: Arc<Watcher>,
    receiver: mpsc::Receiver<Arc<str>>,
}

/// Something to tell a watcher.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// A decision, as JSON in one line.
    Decision(Arc<str>),
    /// So many decisions came faster than they were read.
    Dropped(u64),
}

impl Watchers {
    #[inline]
    pub(super) fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Begins to watch; none if too many do already.
    pub(super) fn join(self: &Arc<Watchers>, wanted: Wanted) -> Option<Watch> {
        let join = |count: usize| (count < MOST).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, join).ok()?;
        let (sender, receiver) = mpsc::channel(BUFFER);
        let me = Arc::new(Watcher { wanted, sender, dropped: AtomicU64::new(0) });
        self.all.rcu(|all| all.iter().chain([&me]).cloned().collect::<Vec<_>>());
        Some(Watch { watchers: self.clone(), me, receiver })
    }

    /// Shows a decision to everybody who wants to see it.
    #[cold]
    pub(super) fn show(&self, event: &Event) {
        let mut text: Option<Arc<str>> = None;
        for watcher in self.all.load().iter() {
            let chosen = watcher.wanted.share.is_none_or(|share| fastrand::f64() < share);
            if !chosen || !watcher.wanted.covers(event) {
                continue;
            }
            let text = text.get_or_insert_with(|| event.to_json().to_string().into());
            if watcher.sender.try_send(text.clone()).is_err() {
                watcher.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Watch {
    /// The next thing to tell.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Seen>> {
        // Those before were read: what was dropped came next.
        if self.receiver.is_empty() {
            let dropped = self.me.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                return Poll::Ready(Some(Seen::Dropped(dropped)));
            }
        }
        Pin::new(&mut self.receiver).poll_recv(context).map(|text| text.map(Seen::Decision))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let others = |all: &Arc<Vec<Arc<Watcher>>>| {
            let others = all.iter().filter(|watcher| !Arc::ptr_eq(watcher, &self.me));
            others.cloned().collect::<Vec<_>>()
        };
        self.watchers.all.rcu(others);
        self.watchers.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DoorName, Outcome};
    use super::*;

    fn event(rule: &str, outcome: Outcome) -> Event {
        Event::of_envoy(DoorName::Grpc, ("shop", rule, b"ann"), outcome, 1, None)
    }

    fn next(watch: &mut Watch) -> Option<Seen> {
        match watch.poll_next(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(seen) => seen,
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_watcher_sees_what_it_wants_and_hears_of_the_rest() {
        let watchers = Arc::new(Watchers::default());
        let wanted =
            Wanted { rule: Some("login".into()), refused: Some(true), ..Wanted::default() };
        let mut watch = watchers.join(wanted).unwrap();
        watchers.show(&event("login", Outcome::Allowed));
        watchers.show(&event("other", Outcome::Denied));
        for _ in 0..BUFFER + 7 {
            watchers.show(&event("login", Outcome::Denied));
        }
        for _ in 0..BUFFER {
            let Some(Seen::Decision(text)) = next(&mut watch) else { panic!("too few") };
            assert!(text.contains("login") && text.contains(DoorName::Grpc.as_str()));
        }
        assert!(matches!(next(&mut watch), Some(Seen::Dropped(7))));
        assert!(next(&mut watch).is_none());
    }

    #[test]
    fn only_so_many_may_watch_and_who_leaves_makes_room() {
        let watchers = Arc::new(Watchers::default());
        let all: Vec<_> =
            std::iter::from_fn(|| watchers.join(Wanted::default())).take(100).collect();
        assert_eq!(all.len(), MOST);
        drop(all);
        assert!(!watchers.are_there());
        assert!(watchers.join(Wanted::default()).is_some());
    }
}
