//! What every queue promises, whether it is on the disk or in Redis.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate::rules::DeferLine;
use tollgate_redis::RedisStore;
use tollgate_rig::Redis;

use super::disk::Disk;
use super::item::{Answer, Head, ItemId, NewItem, State, Wanted};
use super::lines::{Lines, Next};
use super::options::DeferOptions;
use super::queue::{Back, End, Queue, QueueError, Which};
use super::shared::InRedis;

/// A queue, and those who stand in its lines.
struct Kept {
    queue: Queue,
    lines: Lines,
}

pub(super) fn options() -> DeferOptions {
    let take_over = Duration::from_millis(50);
    DeferOptions { count: 4, bytes: 10_000, take_over, ..DeferOptions::default() }
}

pub(super) fn line(key: &str) -> Arc<DeferLine> {
    Arc::new(DeferLine { domain: "shop".into(), rule: "report".into(), key: key.into() })
}

pub(super) fn item(key: &str, body: &str, added_ms: i64) -> NewItem {
    let parts = hyper::Request::post("/report").header("x-org", key).body(()).unwrap();
    let head = Head::new(&parts.into_parts().0, None, false, Default::default());
    let body = Bytes::copy_from_slice(body.as_bytes());
    NewItem { id: ItemId::new().unwrap(), line: line(key), head, body, added_ms }
}

impl Kept {
    async fn add(&self, item: NewItem) -> Result<ItemId, QueueError> {
        let (id, line, added_ms) = (item.id, item.line.clone(), item.added_ms);
        let seq = self.queue.add(item).await?;
        match &self.queue {
            Queue::Disk(_) => {
                let (due_ms, failures) = (0, 0);
                self.lines.join(super::item::Waiting { seq, id, line, added_ms, due_ms, failures });
            }
            Queue::Shared(shared) => shared.look(&self.lines).await.unwrap(),
        }
        Ok(id)
    }

    fn next(&self, key: &str, now_ms: i64) -> Option<ItemId> {
        match self.lines.next(&line(key), now_ms) {
            Next::Now(waiting) => Some(waiting.id),
            _ => None,
        }
    }

    async fn state(&self, id: ItemId) -> Option<State> {
        self.queue.entry(id).await.unwrap().map(|entry| entry.state)
    }
}

/// The life of requests, as every queue keeps it.
async fn suite(kept: &Kept) {
    let queue = &kept.queue;
    let first = kept.add(item("acme", "one", 1_000)).await.unwrap();
    let second = kept.add(item("acme", "two", 2_000)).await.unwrap();
    assert_eq!(kept.next("acme", 0), Some(first));
    assert_eq!(kept.lines.position(second), Some(1));
    assert_eq!(queue.summary().await.unwrap().counts, [2, 0, 0, 0, 0]);
    assert_eq!(queue.summary().await.unwrap().oldest_ms, Some(1_000));

    assert_eq!(queue.head(first).await.unwrap().unwrap().target, "/report");
    let begun = queue.begin(first, 3_000).await.unwrap().unwrap();
    assert_eq!((begun.attempt, &begun.body[..]), (1, &b"one"[..]));
    assert!(queue.begin(first, 3_000).await.unwrap().is_none(), "it is on its way");
    assert!(!queue.cancel(first, 3_000).await.unwrap(), "it is too late to cancel it");
    assert_eq!(queue.summary().await.unwrap().counts, [1, 1, 0, 0, 0]);

    let back = Back { due_ms: 9_000, why: "it slept".into(), is_unsent: false };
    queue.back(first, back.clone(), 4_000).await.unwrap();
    let entry = queue.entry(first).await.unwrap().unwrap();
    assert_eq!((entry.state, entry.attempts, entry.due_ms), (State::Queued, 1, 9_000));
    assert_eq!(entry.why.as_deref(), Some("it slept"));
    queue.begin(first, 9_000).await.unwrap().unwrap();
    queue.back(first, Back { is_unsent: true, ..back }, 9_100).await.unwrap();
    assert_eq!(queue.entry(first).await.unwrap().unwrap().attempts, 1, "nothing was sent");
    assert_eq!(queue.begin(first, 9_200).await.unwrap().unwrap().attempt, 2);

    let answer = Answer { status: 201, kind: Some("text/plain".into()), body: Some("hm".into()) };
    let done = End { state: State::Done, why: None, answer: Some(answer) };
    queue.end(first, done, 9_300).await.unwrap();
    let entry = queue.entry(first).await.unwrap().unwrap();
    let answer = entry.answer.unwrap();
    assert_eq!((entry.state, answer.status), (State::Done, 201));
    assert_eq!(
        (answer.kind.as_deref(), answer.body.as_deref()),
        (Some("text/plain"), Some(&b"hm"[..]))
    );
    assert!(queue.head(first).await.unwrap().is_none());

    queue.begin(second, 9_400).await.unwrap().unwrap();
    let failed = End { state: State::Failed, why: Some("no".into()), answer: None };
    queue.end(second, failed, 9_500).await.unwrap();
    let wanted = |state| Wanted { state, rule: Some("report".into()), limit: 10 };
    let listed = queue.list(wanted(Some(State::Failed))).await.unwrap();
    assert_eq!((listed.len(), listed[0].id, &listed[0].line), (1, second, &*line("acme")));
    assert_eq!(queue.list(wanted(None)).await.unwrap().len(), 2);
    assert_eq!(queue.revive(Which::All(Some("other".into())), 9_600).await.unwrap().1, 0);
    assert_eq!(queue.revive(Which::All(None), 9_600).await.unwrap().1, 1);
    assert_eq!(kept.state(second).await, Some(State::Queued));
    assert!(queue.cancel(second, 9_700).await.unwrap());
    assert!(!queue.cancel(second, 9_700).await.unwrap());
    assert_eq!(kept.state(second).await, Some(State::Cancelled));
    assert_eq!(queue.summary().await.unwrap().counts, [0, 0, 1, 0, 1]);

    for _ in 0..4 {
        kept.add(item("full", "", 0)).await.unwrap();
    }
    let full = kept.add(item("full", "", 0)).await.unwrap_err();
    assert!(matches!(full, QueueError::Full(_)), "{full}");
    let one = kept.next("full", 0).unwrap();
    assert!(queue.cancel(one, 9_800).await.unwrap());
    let heavy = "x".repeat(20_000);
    let full = kept.add(item("full", &heavy, 0)).await.unwrap_err();
    assert!(matches!(full, QueueError::Full(_)), "{full}");
    kept.add(item("full", "light", 0)).await.unwrap();
    assert!(queue.entry(ItemId::new().unwrap()).await.unwrap().is_none());

    queue.sweep(i64::MAX / 2).await.unwrap();
    let [.., done, _, cancelled] = queue.summary().await.unwrap().counts;
    assert_eq!((done, cancelled), (0, 0), "they are forgotten");
}

pub(super) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn a_queue_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, found) = Disk::open(folder.path(), &options()).unwrap();
    assert!(found.waiting.is_empty() && found.attempts.is_empty());
    let kept = Kept { queue: Queue::Disk(disk.clone()), lines: Lines::new().0 };
    run(suite(&kept));
    disk.close();
    let (_, found) = Disk::open(folder.path(), &options()).unwrap();
    assert_eq!(found.waiting.len(), 4, "what waits is there after a restart");
}

#[test]
fn a_queue_in_redis() {
    let redis = Redis::start();
    run(async {
        let store = RedisStore::connect(redis.url().parse().unwrap()).await.unwrap();
        let queue = InRedis::new(store.desk("shop"), &options()).unwrap();
        suite(&Kept { queue: Queue::Shared(queue), lines: Lines::new().0 }).await;
    });
}

#[test]
fn nodes_take_over_from_one_that_is_silent() {
    let redis = Redis::start();
    run(async {
        let store = RedisStore::connect(redis.url().parse().unwrap()).await.unwrap();
        let node = || {
            let queue = InRedis::new(store.desk("shop"), &options()).unwrap();
            Kept { queue: Queue::Shared(queue), lines: Lines::new().0 }
        };
        let (one, other) = (node(), node());
        let sending = one.add(item("acme", "one", 1_000)).await.unwrap();
        one.queue.begin(sending, 2_000).await.unwrap().unwrap();
        let (Queue::Shared(dead), Queue::Shared(alive)) = (&one.queue, &other.queue) else {
            unreachable!("both are shared")
        };
        alive.look(&other.lines).await.unwrap();
        assert_eq!(other.next("acme", 0), None, "it is another node's");
        assert!(other.queue.begin(sending, 2_500).await.unwrap().is_none());
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while other.next("acme", 0).is_none() {
            ticks.tick().await;
            alive.look(&other.lines).await.unwrap();
        }
        assert_eq!(other.queue.begin(sending, 3_000).await.unwrap().unwrap().attempt, 2);
        other.lines.leave(sending);
        dead.beat(&one.lines).await.unwrap();
        assert_eq!(one.next("acme", 0), None, "it let go of what is another node's now");
        let done = End { state: State::Done, why: None, answer: None };
        other.queue.end(sending, done, 4_000).await.unwrap();
        assert_eq!(one.state(sending).await, Some(State::Done));
        // Whoever leaves in good order need not be waited for.
        let left = one.add(item("acme", "two", 1_000)).await.unwrap();
        assert!(one.lines.is_waiting(&line("acme")));
        dead.leave().await;
        alive.look(&other.lines).await.unwrap();
        assert_eq!(other.next("acme", 0), Some(left));
    });
}

#[test]
fn a_full_disk_refuses_loses_nothing_and_takes_more_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let roomy = DeferOptions { count: 1_000, bytes: 1 << 30, ..options() };
    let (disk, _) = Disk::open(folder.path(), &roomy).unwrap();
    run(async {
        disk.limit_pages(200).await.unwrap();
        let body = "x".repeat(50_000);
        let mut kept = Vec::new();
        let refused = loop {
            let new = item("acme", &body, 0);
            let id = new.id;
            match disk.add(new).await {
                Ok(_) => kept.push(id),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, QueueError::Full("the disk is full".into()));
        assert!(kept.len() > 5, "{}", kept.len());
        let begun = disk.begin(kept[0], 1).await;
        disk.limit_pages(20_000).await.unwrap();
        disk.add(item("acme", &body, 0)).await.unwrap();
        if begun.is_err() {
            disk.begin(kept[0], 1).await.unwrap().unwrap();
        }
        for id in &kept[1..] {
            let begun = disk.begin(*id, 1).await.unwrap().unwrap();
            assert_eq!(begun.body.len(), body.len());
        }
    });
}
