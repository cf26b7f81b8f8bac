//! Lost replies of the store: every operation takes effect once, and no request is forgotten.

use std::time::Duration;

use tokio::time::interval;
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::{Proxy, Redis};

use super::RedisQueue;
use crate::deferred::item::{ItemId, ItemState};
use crate::deferred::queue::{Completion, QueueError};
use crate::deferred::queue_index::{NextItem, QueueIndex};
use crate::deferred::tests::{item, options, queue_key, run};

/// A store, a proxy that can lose its replies, and a queue behind it.
struct TestQueue {
    redis: Redis,
    proxy: Proxy,
    queue: RedisQueue,
    index: QueueIndex,
}

impl TestQueue {
    async fn start() -> TestQueue {
        let redis = Redis::start();
        let proxy = Proxy::start(redis.port());
        let redis_options: Options = proxy.url().parse().unwrap();
        let redis_options = redis_options.timeout(Duration::from_secs(10)).unwrap();
        let store = RedisStore::connect(redis_options).await.unwrap();
        let queue = RedisQueue::new(store.client().clone(), "shop", &options()).unwrap();
        TestQueue { redis, proxy, queue, index: QueueIndex::new().0 }
    }

    /// Sends a command to the store directly.
    fn command(&self, args: &[&str]) -> String {
        let args: Vec<String> =
            args.iter().map(|arg| arg.replace("BASE", "tollgate:{deferred:shop}")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.redis.command(&args).unwrap().text()
    }

    /// Returns the number of requests that wait or are being sent.
    fn open(&self) -> usize {
        self.command(&["XLEN", "BASE:stream"]).parse().unwrap()
    }

    /// Returns the number of stored requests that count towards the limits.
    fn stored_count(&self) -> String {
        self.command(&["HGET", "BASE:kept", "count"])
    }

    /// Lets replies through again.
    async fn restore_replies(&self) {
        self.proxy.swallow_replies(false);
        let mut ticks = interval(Duration::from_millis(10));
        while self.queue.summary().await.is_err() {
            ticks.tick().await;
        }
    }

    /// Repeats an operation whose reply is lost until it takes effect.
    async fn repeat_until_effective<T: std::fmt::Debug>(
        &self,
        operation: impl AsyncFn() -> Result<T, QueueError>,
        is_done: impl AsyncFn() -> bool,
    ) {
        while !is_done().await {
            self.proxy.swallow_replies(true);
            operation().await.unwrap_err();
            self.restore_replies().await;
        }
    }

    fn next(&self) -> Option<ItemId> {
        match self.index.next(&queue_key("acme"), 0) {
            NextItem::Ready(item) => Some(item.id),
            _ => None,
        }
    }

    async fn state(&self, id: ItemId) -> Option<ItemState> {
        self.queue.details(id).await.unwrap().map(|details| details.state)
    }
}

#[test]
fn a_request_whose_reply_is_lost_is_stored_once_and_accepted() {
    run(async {
        let test = TestQueue::start().await;
        let mut ticks = interval(Duration::from_millis(5));
        let outcome = loop {
            test.proxy.swallow_replies(true);
            let (queue, new) = (test.queue.clone(), item("acme", "one", 1_000));
            let adding = tokio::spawn(async move { queue.add(new).await });
            while test.open() == 0 && !adding.is_finished() {
                ticks.tick().await;
            }
            test.proxy.swallow_replies(false);
            let outcome = adding.await.unwrap();
            if test.open() > 0 {
                break outcome;
            }
            test.restore_replies().await;
        };
        outcome.unwrap();
        assert_eq!((test.open(), test.stored_count().as_str()), (1, "1"));
        test.queue.withdraw_uncertain().await.unwrap();
        assert_eq!(test.open(), 1, "a stored request must not be withdrawn");
    });
}

#[test]
fn a_request_whose_client_got_an_error_is_withdrawn() {
    run(async {
        let test = TestQueue::start().await;
        let new = item("acme", "one", 1_000);
        let id = new.id;
        test.repeat_until_effective(
            async || test.queue.add(new.clone()).await,
            async || test.open() > 0,
        )
        .await;
        test.queue.withdraw_uncertain().await.unwrap();
        assert_eq!((test.open(), test.stored_count().as_str()), (0, "0"));
        assert_eq!(test.state(id).await, Some(ItemState::Cancelled));

        // A request that reaches the store after it was withdrawn.
        let late = item("acme", "two", 1_000);
        test.queue.0.uncertain.add(late.id);
        test.queue.withdraw_uncertain().await.unwrap();
        test.queue.add(late).await.unwrap_err();
        assert_eq!((test.open(), test.stored_count().as_str()), (0, "0"));

        // A request that was sent meanwhile is not withdrawn.
        let sent = item("acme", "three", 1_000);
        let id = sent.id;
        test.queue.add(sent).await.unwrap();
        test.queue.take_new(&test.index).await.unwrap();
        test.queue.begin(id, 2_000).await.unwrap().unwrap();
        test.queue.0.uncertain.add(id);
        test.queue.withdraw_uncertain().await.unwrap();
        assert_eq!(test.state(id).await, Some(ItemState::Sending));
    });
}

#[test]
fn a_request_whose_take_or_begin_reply_is_lost_is_sent() {
    run(async {
        let test = TestQueue::start().await;
        let new = item("acme", "one", 1_000);
        let id = new.id;
        test.queue.add(new).await.unwrap();
        let taken = async || {
            let pending = ["XPENDING", "BASE:stream", "tollgate", "-", "+", "10"];
            let args = pending.map(|arg| arg.replace("BASE", "tollgate:{deferred:shop}"));
            let pending = test.redis.command(&args.each_ref().map(String::as_str));
            pending.is_ok_and(|pending| !pending.list().is_empty())
        };
        test.repeat_until_effective(async || test.queue.take_new(&test.index).await, taken).await;
        test.queue.take_new(&test.index).await.unwrap();
        assert_eq!(test.next(), None, "this node has it already");
        test.queue.heartbeat(&test.index).await.unwrap();
        assert_eq!(test.next(), Some(id));

        let begun = async || test.state(id).await == Some(ItemState::Sending);
        test.repeat_until_effective(async || test.queue.begin(id, 2_000).await, begun).await;
        test.queue.heartbeat(&test.index).await.unwrap();
        assert_eq!((test.state(id).await, test.next()), (Some(ItemState::Queued), Some(id)));

        // A request that is being sent is not touched.
        test.queue.begin(id, 3_000).await.unwrap().unwrap();
        test.index.remove(id);
        test.queue.heartbeat(&test.index).await.unwrap();
        assert_eq!((test.state(id).await, test.next()), (Some(ItemState::Sending), None));

        let done = || Completion { state: ItemState::Done, reason: None, response: None };
        let over = async || test.state(id).await == Some(ItemState::Done);
        test.repeat_until_effective(async || test.queue.complete(id, done(), 4_000).await, over)
            .await;
        test.queue.complete(id, done(), 5_000).await.unwrap();
        assert_eq!((test.open(), test.stored_count().as_str()), (0, "0"), "it ended once");
    });
}
