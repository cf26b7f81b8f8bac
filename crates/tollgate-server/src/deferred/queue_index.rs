//! The index of queued deferred requests, in memory.
//!
//! Requests of one rule and key form a queue. A request whose attempt failed does not block its queue:
//! those behind it are sent until its next attempt is due.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use super::item::{ItemId, QueuedItem};
use super::queue_key::DeferredQueueKey;

/// The queues of all rules and keys.
#[derive(Debug)]
pub(crate) struct QueueIndex {
    state: Mutex<IndexState>,
    /// The number of queued requests, so that most decisions need no lock.
    count: AtomicUsize,
    /// Receives every queue that begins.
    new_queues: mpsc::UnboundedSender<Arc<DeferredQueueKey>>,
}

#[derive(Debug, Default)]
struct IndexState {
    queues: HashMap<Arc<DeferredQueueKey>, KeyQueue>,
    by_id: HashMap<ItemId, (Arc<DeferredQueueKey>, u64)>,
    /// The number of untried requests on other nodes, by queue.
    remote: HashMap<DeferredQueueKey, u64>,
}

#[derive(Debug, Default)]
struct KeyQueue {
    items: BTreeMap<u64, QueuedItem>,
    /// The number of requests that were not tried yet.
    untried: usize,
    /// Notified when a request is added or removed.
    changed: Arc<Notify>,
}

/// The next request of a queue.
#[derive(Debug)]
pub(super) enum NextItem {
    Ready(QueuedItem),
    /// No request is due before this time; wait for it or for a change.
    At(i64, Arc<Notify>),
    /// The queue is empty.
    None,
}

impl QueueIndex {
    /// Creates an empty index and the receiver of queues that begin.
    pub(super) fn new() -> (QueueIndex, mpsc::UnboundedReceiver<Arc<DeferredQueueKey>>) {
        let (new_queues, receiver) = mpsc::unbounded_channel();
        (QueueIndex { state: Mutex::default(), count: AtomicUsize::new(0), new_queues }, receiver)
    }

    /// Returns whether no request is queued.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Returns whether a queue has untried requests, behind which new ones must wait.
    pub(crate) fn has_untried(&self, queue_key: &DeferredQueueKey) -> bool {
        let state = self.state.lock();
        state.queues.get(queue_key).is_some_and(|queue| queue.untried > 0)
            || state.remote.contains_key(queue_key)
    }

    /// Returns the queue position of a request; `None` if it is not queued on this node.
    pub(crate) fn position(&self, id: ItemId) -> Option<usize> {
        let state = self.state.lock();
        let (queue_key, seq) = state.by_id.get(&id)?;
        Some(state.queues.get(queue_key)?.items.range(..seq).count())
    }

    /// Returns the length of a queue on this node.
    pub(crate) fn queue_len(&self, queue_key: &DeferredQueueKey) -> usize {
        self.state.lock().queues.get(queue_key).map_or(0, |queue| queue.items.len())
    }

    /// Returns the number of requests queued on this node.
    pub(super) fn len(&self) -> usize {
        self.state.lock().by_id.len()
    }

    /// Adds a request to its queue.
    pub(super) fn insert(&self, item: QueuedItem) {
        let mut state = self.state.lock();
        let (queue_key, seq) = (item.queue_key.clone(), item.seq);
        if state.by_id.insert(item.id, (queue_key.clone(), seq)).is_some() {
            return;
        }
        let is_new = !state.queues.contains_key(&queue_key);
        let queue = state.queues.entry(queue_key.clone()).or_default();
        queue.untried += usize::from(item.failures == 0);
        queue.items.insert(seq, item);
        queue.changed.notify_one();
        self.update_count(&state);
        if is_new {
            // The receiver is closed only while the server stops.
            let _ = self.new_queues.send(queue_key);
        }
    }

    /// Removes a request, if it is queued.
    pub(super) fn remove(&self, id: ItemId) {
        let mut state = self.state.lock();
        let Some((queue_key, seq)) = state.by_id.remove(&id) else { return };
        if let Some(queue) = state.queues.get_mut(&queue_key) {
            let removed = queue.items.remove(&seq);
            queue.untried -= usize::from(removed.is_some_and(|item| item.failures == 0));
            queue.changed.notify_one();
        }
        self.update_count(&state);
    }

    /// Returns the first request of a queue that is due.
    pub(super) fn next(&self, queue_key: &Arc<DeferredQueueKey>, now_ms: i64) -> NextItem {
        let mut state = self.state.lock();
        let Some(queue) = state.queues.get(queue_key) else { return NextItem::None };
        let mut items = queue.items.values();
        if let Some(next) = items.find(|item| item.due_ms <= now_ms) {
            return NextItem::Ready(next.clone());
        }
        match queue.items.values().map(|item| item.due_ms).min() {
            Some(due_ms) => NextItem::At(due_ms, queue.changed.clone()),
            None => {
                state.queues.remove(queue_key);
                NextItem::None
            }
        }
    }

    /// Returns all requests queued on this node.
    pub(super) fn all(&self) -> Vec<QueuedItem> {
        let state = self.state.lock();
        state.queues.values().flat_map(|queue| queue.items.values()).cloned().collect()
    }

    /// Counts a request that any node may send.
    pub(super) fn add_remote(&self, queue_key: &DeferredQueueKey) {
        let mut state = self.state.lock();
        *state.remote.entry(queue_key.clone()).or_default() += 1;
        self.update_count(&state);
    }

    /// Replaces the number of untried requests on other nodes.
    pub(super) fn set_remote(&self, remote: HashMap<DeferredQueueKey, u64>) {
        let mut state = self.state.lock();
        state.remote = remote;
        self.update_count(&state);
    }

    fn update_count(&self, state: &IndexState) {
        self.count.store(state.by_id.len() + state.remote.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_key(key: &str) -> Arc<DeferredQueueKey> {
        Arc::new(DeferredQueueKey { domain: "shop".into(), rule: "report".into(), key: key.into() })
    }

    fn item(seq: u64, key: &str, due_ms: i64, failures: u32) -> QueuedItem {
        let id = crate::random_id::RandomId(seq.into());
        QueuedItem { seq, id, queue_key: queue_key(key), added_ms: 0, due_ms, failures }
    }

    #[test]
    fn a_failed_request_does_not_block_its_queue() {
        let (index, mut new_queues) = QueueIndex::new();
        index.insert(item(1, "a", 500, 1));
        index.insert(item(2, "a", 0, 0));
        index.insert(item(3, "b", 0, 0));
        assert_eq!(
            [new_queues.try_recv().unwrap(), new_queues.try_recv().unwrap()],
            [queue_key("a"), queue_key("b")]
        );
        let next = |now_ms| index.next(&queue_key("a"), now_ms);
        assert!(matches!(next(0), NextItem::Ready(QueuedItem { seq: 2, .. })));
        assert!(matches!(next(500), NextItem::Ready(QueuedItem { seq: 1, .. })));
        assert_eq!(index.position(crate::random_id::RandomId(2)), Some(1));
        index.remove(crate::random_id::RandomId(2));
        assert!(matches!(next(0), NextItem::At(500, _)));
        assert!(!index.has_untried(&queue_key("a")), "new requests do not wait for a retry");
        index.remove(crate::random_id::RandomId(1));
        index.remove(crate::random_id::RandomId(1));
        assert!(matches!(next(0), NextItem::None));
        assert!(index.has_untried(&queue_key("b")) && !index.is_empty());
        index.insert(item(4, "a", 0, 0));
        assert_eq!(new_queues.try_recv().unwrap(), queue_key("a"), "an emptied queue begins again");
    }
}
