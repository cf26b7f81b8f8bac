//! Tests that every deferred queue passes, on disk and in Redis.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_redis::RedisStore;
use tollgate_rig::Redis;

use super::disk::DiskQueue;
use super::item::{ItemFilter, ItemId, ItemState, NewItem, StoredHead, StoredResponse};
use super::options::DeferOptions;
use super::queue::{Completion, DeferredQueue, QueueError, Requeue, ReviveSelection};
use super::queue_index::{NextItem, QueueIndex};
use super::queue_key::DeferredQueueKey;
use super::shared::RedisQueue;

/// A queue and its index.
struct QueueUnderTest {
    queue: DeferredQueue,
    index: QueueIndex,
}

pub(super) fn options() -> DeferOptions {
    let take_over = Duration::from_millis(50);
    DeferOptions { count: 4, bytes: 10_000, share: 1.0, take_over, ..DeferOptions::default() }
}

pub(super) fn queue_key(key: &str) -> Arc<DeferredQueueKey> {
    Arc::new(DeferredQueueKey { domain: "shop".into(), rule: "report".into(), key: key.into() })
}

pub(super) fn item(key: &str, body: &str, added_ms: i64) -> NewItem {
    let parts = hyper::Request::post("/report").header("x-org", key).body(()).unwrap();
    let head = StoredHead::new(&parts.into_parts().0, None, false, Default::default());
    let body = Bytes::copy_from_slice(body.as_bytes());
    NewItem { id: ItemId::new().unwrap(), queue_key: queue_key(key), head, body, added_ms }
}

impl QueueUnderTest {
    async fn add(&self, item: NewItem) -> Result<ItemId, QueueError> {
        let (id, queue_key, added_ms) = (item.id, item.queue_key.clone(), item.added_ms);
        let seq = self.queue.add(item).await?;
        match &self.queue {
            DeferredQueue::Disk(_) => {
                let (due_ms, failures) = (0, 0);
                self.index.insert(super::item::QueuedItem {
                    seq,
                    id,
                    queue_key,
                    added_ms,
                    due_ms,
                    failures,
                });
            }
            DeferredQueue::Shared(shared) => shared.take_new(&self.index).await.unwrap(),
        }
        Ok(id)
    }

    fn next(&self, key: &str, now_ms: i64) -> Option<ItemId> {
        match self.index.next(&queue_key(key), now_ms) {
            NextItem::Ready(item) => Some(item.id),
            _ => None,
        }
    }

    async fn state(&self, id: ItemId) -> Option<ItemState> {
        self.queue.details(id).await.unwrap().map(|details| details.state)
    }
}

/// Runs the conformance suite.
async fn suite(under_test: &QueueUnderTest) {
    let queue = &under_test.queue;
    let first = under_test.add(item("acme", "one", 1_000)).await.unwrap();
    let second = under_test.add(item("acme", "two", 2_000)).await.unwrap();
    assert_eq!(under_test.next("acme", 0), Some(first));
    assert_eq!(under_test.index.position(second), Some(1));
    assert_eq!(queue.summary().await.unwrap().counts, [2, 0, 0, 0, 0]);
    assert_eq!(queue.summary().await.unwrap().oldest_ms, Some(1_000));

    assert_eq!(queue.head(first).await.unwrap().unwrap().target, "/report");
    let started = queue.begin(first, 3_000).await.unwrap().unwrap();
    assert_eq!((started.attempt, &started.body[..]), (1, &b"one"[..]));
    assert!(queue.begin(first, 3_000).await.unwrap().is_none(), "the request is being sent");
    assert!(
        !queue.cancel(first, 3_000).await.unwrap(),
        "a request that is being sent cannot be cancelled"
    );
    assert_eq!(queue.summary().await.unwrap().counts, [1, 1, 0, 0, 0]);

    let requeue = Requeue { due_ms: 9_000, reason: "timed out".into(), is_unsent: false };
    queue.requeue(first, requeue.clone(), 4_000).await.unwrap();
    let details = queue.details(first).await.unwrap().unwrap();
    assert_eq!((details.state, details.attempts, details.due_ms), (ItemState::Queued, 1, 9_000));
    assert_eq!(details.reason.as_deref(), Some("timed out"));
    queue.begin(first, 9_000).await.unwrap().unwrap();
    queue.requeue(first, Requeue { is_unsent: true, ..requeue }, 9_100).await.unwrap();
    assert_eq!(queue.details(first).await.unwrap().unwrap().attempts, 1, "nothing was sent");
    assert_eq!(queue.begin(first, 9_200).await.unwrap().unwrap().attempt, 2);

    let response = StoredResponse {
        status: 201,
        content_type: Some("text/plain".into()),
        body: Some("hm".into()),
    };
    let done = Completion { state: ItemState::Done, reason: None, response: Some(response) };
    queue.complete(first, done, 9_300).await.unwrap();
    let details = queue.details(first).await.unwrap().unwrap();
    let response = details.response.unwrap();
    assert_eq!((details.state, response.status), (ItemState::Done, 201));
    assert_eq!(
        (response.content_type.as_deref(), response.body.as_deref()),
        (Some("text/plain"), Some(&b"hm"[..]))
    );
    assert!(queue.head(first).await.unwrap().is_none());

    queue.begin(second, 9_400).await.unwrap().unwrap();
    let failed = Completion { state: ItemState::Failed, reason: Some("no".into()), response: None };
    queue.complete(second, failed, 9_500).await.unwrap();
    let filter = |state| ItemFilter { state, rule: Some("report".into()), limit: 10 };
    let listed = queue.list(filter(Some(ItemState::Failed))).await.unwrap();
    assert_eq!(
        (listed.len(), listed[0].id, &listed[0].queue_key),
        (1, second, &*queue_key("acme"))
    );
    assert_eq!(queue.list(filter(None)).await.unwrap().len(), 2);
    assert_eq!(queue.revive(ReviveSelection::All(Some("other".into())), 9_600).await.unwrap().1, 0);
    assert_eq!(queue.revive(ReviveSelection::All(None), 9_600).await.unwrap().1, 1);
    assert_eq!(under_test.state(second).await, Some(ItemState::Queued));
    assert!(queue.cancel(second, 9_700).await.unwrap());
    assert!(!queue.cancel(second, 9_700).await.unwrap());
    assert_eq!(under_test.state(second).await, Some(ItemState::Cancelled));
    assert_eq!(queue.summary().await.unwrap().counts, [0, 0, 1, 0, 1]);

    for _ in 0..4 {
        under_test.add(item("full", "", 0)).await.unwrap();
    }
    let full = under_test.add(item("full", "", 0)).await.unwrap_err();
    assert!(matches!(full, QueueError::Full(_)), "{full}");
    let one = under_test.next("full", 0).unwrap();
    assert!(queue.cancel(one, 9_800).await.unwrap());
    let heavy = "x".repeat(20_000);
    let full = under_test.add(item("full", &heavy, 0)).await.unwrap_err();
    assert!(matches!(full, QueueError::Full(_)), "{full}");
    under_test.add(item("full", "light", 0)).await.unwrap();
    assert!(queue.details(ItemId::new().unwrap()).await.unwrap().is_none());

    queue.sweep(i64::MAX / 2).await.unwrap();
    let [.., done, _, cancelled] = queue.summary().await.unwrap().counts;
    assert_eq!((done, cancelled), (0, 0), "finished requests are removed");
}

pub(super) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn a_queue_on_disk_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, recovered) = DiskQueue::open(folder.path(), &options()).unwrap();
    assert!(recovered.queued.is_empty() && recovered.attempts.is_empty());
    let under_test =
        QueueUnderTest { queue: DeferredQueue::Disk(disk.clone()), index: QueueIndex::new().0 };
    run(suite(&under_test));
    assert!(disk.close(Duration::from_secs(30)));
    let (_, recovered) = DiskQueue::open(folder.path(), &options()).unwrap();
    assert_eq!(recovered.queued.len(), 4, "queued requests survive a restart");
}

#[test]
fn a_queue_in_redis_passes_the_suite() {
    let redis = Redis::start();
    run(async {
        let store = RedisStore::connect(redis.url().parse().unwrap()).await.unwrap();
        let queue = RedisQueue::new(store.client().clone(), "shop", &options()).unwrap();
        suite(&QueueUnderTest { queue: DeferredQueue::Shared(queue), index: QueueIndex::new().0 })
            .await;
    });
}

#[test]
fn nodes_take_over_the_requests_of_a_silent_node() {
    let redis = Redis::start();
    run(async {
        let store = RedisStore::connect(redis.url().parse().unwrap()).await.unwrap();
        let node = || {
            let queue = RedisQueue::new(store.client().clone(), "shop", &options()).unwrap();
            QueueUnderTest { queue: DeferredQueue::Shared(queue), index: QueueIndex::new().0 }
        };
        let (one, other) = (node(), node());
        let sending = one.add(item("acme", "one", 1_000)).await.unwrap();
        one.queue.begin(sending, 2_000).await.unwrap().unwrap();
        let (DeferredQueue::Shared(dead), DeferredQueue::Shared(alive)) =
            (&one.queue, &other.queue)
        else {
            unreachable!("both queues are in Redis")
        };
        alive.take_new(&other.index).await.unwrap();
        assert_eq!(other.next("acme", 0), None, "the request belongs to another node");
        assert!(other.queue.begin(sending, 2_500).await.unwrap().is_none());
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while other.next("acme", 0).is_none() {
            ticks.tick().await;
            alive.take_new(&other.index).await.unwrap();
        }
        assert_eq!(other.queue.begin(sending, 3_000).await.unwrap().unwrap().attempt, 2);
        other.index.remove(sending);
        dead.heartbeat(&one.index).await.unwrap();
        assert_eq!(
            one.next("acme", 0),
            None,
            "the node drops a request that another node has taken over"
        );
        let done = Completion { state: ItemState::Done, reason: None, response: None };
        other.queue.complete(sending, done, 4_000).await.unwrap();
        assert_eq!(one.state(sending).await, Some(ItemState::Done));
        // The requests of a node that shuts down are free at once.
        let left = one.add(item("acme", "two", 1_000)).await.unwrap();
        assert!(one.index.has_untried(&queue_key("acme")));
        dead.leave().await;
        alive.take_new(&other.index).await.unwrap();
        assert_eq!(other.next("acme", 0), Some(left));
    });
}

#[test]
fn a_full_disk_refuses_requests_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let large = DeferOptions { count: 1_000, bytes: 1 << 30, ..options() };
    let (disk, _) = DiskQueue::open(folder.path(), &large).unwrap();
    run(async {
        disk.limit_pages(200).await.unwrap();
        let body = "x".repeat(50_000);
        let mut stored = Vec::new();
        let refused = loop {
            let new = item("acme", &body, 0);
            let id = new.id;
            match disk.add(new).await {
                Ok(_) => stored.push(id),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, QueueError::Full("the disk is full".into()));
        assert!(stored.len() > 5, "{}", stored.len());
        let started = disk.begin(stored[0], 1).await;
        disk.limit_pages(20_000).await.unwrap();
        disk.add(item("acme", &body, 0)).await.unwrap();
        if started.is_err() {
            disk.begin(stored[0], 1).await.unwrap().unwrap();
        }
        for id in &stored[1..] {
            let started = disk.begin(*id, 1).await.unwrap().unwrap();
            assert_eq!(started.body.len(), body.len());
        }
    });
}
