//! The live tail: subscriptions to decisions as they are made.
//!
//! A decision never waits for a subscriber. Each subscriber has a bounded buffer; decisions that do
//! not fit are counted instead.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use super::event::DecisionEvent;

/// The maximum number of subscribers.
const MAX_SUBSCRIBERS: usize = 16;
/// The maximum number of decisions that wait for one subscriber.
const BUFFER: usize = 256;

/// A filter of decision events.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    pub(crate) domain: Option<String>,
    pub(crate) rule: Option<String>,
    /// `true` selects refusals, `false` selects allowed requests.
    pub(crate) refused: Option<bool>,
    /// The share of the matching events, from 0 to 1. The default is all.
    pub(crate) share: Option<f64>,
}

impl EventFilter {
    pub(super) fn matches(&self, event: &DecisionEvent) -> bool {
        let refused = |filter| event.outcome.is_refusal() == filter;
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

/// The subscribers of the live tail.
#[derive(Debug, Default)]
pub(super) struct TailSubscribers {
    count: AtomicUsize,
    all: ArcSwap<Vec<Arc<TailSubscriber>>>,
}

#[derive(Debug)]
struct TailSubscriber {
    filter: EventFilter,
    sender: mpsc::Sender<Arc<str>>,
    dropped: AtomicU64,
}

/// A subscription to the live tail. Dropping it unsubscribes.
#[derive(Debug)]
pub(crate) struct TailSubscription {
    subscribers: Arc<TailSubscribers>,
    subscriber: Arc<TailSubscriber>,
    receiver: mpsc::Receiver<Arc<str>>,
}

/// An item of the live tail.
#[derive(Clone, Debug)]
pub(crate) enum TailEvent {
    /// A decision as one line of JSON.
    Decision(Arc<str>),
    /// The number of decisions that did not fit in the buffer.
    Dropped(u64),
}

impl TailSubscribers {
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds a subscriber; returns `None` at the maximum.
    pub(super) fn subscribe(
        self: &Arc<TailSubscribers>,
        filter: EventFilter,
    ) -> Option<TailSubscription> {
        let add = |count: usize| (count < MAX_SUBSCRIBERS).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        let (sender, receiver) = mpsc::channel(BUFFER);
        let subscriber = Arc::new(TailSubscriber { filter, sender, dropped: AtomicU64::new(0) });
        self.all.rcu(|all| all.iter().chain([&subscriber]).cloned().collect::<Vec<_>>());
        Some(TailSubscription { subscribers: self.clone(), subscriber, receiver })
    }

    /// Sends a decision to the subscribers whose filter it matches.
    #[cold]
    pub(super) fn publish(&self, event: &DecisionEvent) {
        let mut text: Option<Arc<str>> = None;
        for subscriber in self.all.load().iter() {
            let chosen = subscriber.filter.share.is_none_or(|share| fastrand::f64() < share);
            if !chosen || !subscriber.filter.matches(event) {
                continue;
            }
            let text = text.get_or_insert_with(|| event.to_json().to_string().into());
            if subscriber.sender.try_send(text.clone()).is_err() {
                subscriber.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl TailSubscription {
    /// Polls for the next item.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<TailEvent>> {
        // The buffer is empty, so that the dropped decisions come next in order.
        if self.receiver.is_empty() {
            let dropped = self.subscriber.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                return Poll::Ready(Some(TailEvent::Dropped(dropped)));
            }
        }
        Pin::new(&mut self.receiver).poll_recv(context).map(|text| text.map(TailEvent::Decision))
    }
}

impl Drop for TailSubscription {
    fn drop(&mut self) {
        let others = |all: &Arc<Vec<Arc<TailSubscriber>>>| {
            let others = all.iter().filter(|other| !Arc::ptr_eq(other, &self.subscriber));
            others.cloned().collect::<Vec<_>>()
        };
        self.subscribers.all.rcu(others);
        self.subscribers.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DecisionOutcome, DoorName};
    use super::*;

    fn event(rule: &str, outcome: DecisionOutcome) -> DecisionEvent {
        DecisionEvent::from_envoy(DoorName::Grpc, ("shop", rule, b"ann"), outcome, 1, None)
    }

    fn next(subscription: &mut TailSubscription) -> Option<TailEvent> {
        match subscription.poll_next(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_subscriber_gets_matching_events_and_the_number_of_dropped_ones() {
        let subscribers = Arc::new(TailSubscribers::default());
        let filter = EventFilter {
            rule: Some("login".into()),
            refused: Some(true),
            ..EventFilter::default()
        };
        let mut subscription = subscribers.subscribe(filter).unwrap();
        subscribers.publish(&event("login", DecisionOutcome::Allowed));
        subscribers.publish(&event("other", DecisionOutcome::Denied));
        for _ in 0..BUFFER + 7 {
            subscribers.publish(&event("login", DecisionOutcome::Denied));
        }
        for _ in 0..BUFFER {
            let Some(TailEvent::Decision(text)) = next(&mut subscription) else {
                panic!("too few")
            };
            assert!(text.contains("login") && text.contains(DoorName::Grpc.as_str()));
        }
        assert!(matches!(next(&mut subscription), Some(TailEvent::Dropped(7))));
        assert!(next(&mut subscription).is_none());
    }

    #[test]
    fn the_number_of_subscribers_is_bounded_and_dropping_unsubscribes() {
        let subscribers = Arc::new(TailSubscribers::default());
        let all: Vec<_> = std::iter::from_fn(|| subscribers.subscribe(EventFilter::default()))
            .take(100)
            .collect();
        assert_eq!(all.len(), MAX_SUBSCRIBERS);
        drop(all);
        assert!(!subscribers.has_any());
        assert!(subscribers.subscribe(EventFilter::default()).is_some());
    }
}
