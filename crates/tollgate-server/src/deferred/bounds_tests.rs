//! Tests of shares and dead letters that every deferred queue passes, on disk and in Redis.

use std::path::Path;
use std::time::Duration;

use tollgate_redis::RedisStore;
use tollgate_rig::Redis;

use super::disk::DiskQueue;
use super::item::{ItemFilter, ItemId, ItemState};
use super::options::DeferOptions;
use super::queue::{Completion, DeferredQueue, QueueError, ReviveSelection};
use super::shared::RedisQueue;
use super::tests::{item, run};

/// The retention of dead letters in these tests.
const KEEP_DEAD: Duration = Duration::from_secs(10);
/// A time that no clock reaches, so that nothing expires when a queue is opened. Scores of Redis are
/// exact up to 2^53.
const LATE_MS: i64 = 1 << 50;

fn options() -> DeferOptions {
    let (count, bytes, keep_dead) = (40, 100_000, KEEP_DEAD);
    DeferOptions { count, bytes, keep_dead, ..DeferOptions::default() }
}

async fn redis_queue(redis: &Redis, options: &DeferOptions) -> RedisQueue {
    let store = RedisStore::connect(redis.url().parse().unwrap()).await.unwrap();
    RedisQueue::new(store.client().clone(), "shop", options).unwrap()
}

async fn add(queue: &DeferredQueue, key: &str, body: &str) -> Result<ItemId, QueueError> {
    let new = item(key, body, LATE_MS);
    let id = new.id;
    queue.add(new).await.map(|_| id)
}

/// Stores requests until one is refused; returns their ids and the reason.
async fn fill(queue: &DeferredQueue, key: &str, body: &str) -> (Vec<ItemId>, String) {
    let mut ids = Vec::new();
    loop {
        match add(queue, key, body).await {
            Ok(id) => ids.push(id),
            Err(QueueError::Full(reason)) => return (ids, reason),
            Err(error) => panic!("{error}"),
        }
        assert!(ids.len() <= 40, "there is no bound");
    }
}

/// Makes a request a dead letter.
async fn fail(queue: &DeferredQueue, id: ItemId, at_ms: i64) {
    let failed = Completion { state: ItemState::Failed, reason: Some("no".into()), response: None };
    queue.complete(id, failed, at_ms).await.unwrap();
}

async fn failed(queue: &DeferredQueue) -> Vec<ItemId> {
    let filter = ItemFilter { state: Some(ItemState::Failed), rule: None, limit: 100 };
    queue.list(filter).await.unwrap().iter().map(|details| details.id).collect()
}

async fn check_shares(queue: &DeferredQueue) {
    let (first, reason) = fill(queue, "acme", "one").await;
    assert_eq!(first.len(), 10, "a quarter of 40");
    assert!(reason.contains("its key take up their share of the queue, 10 requests"), "{reason}");
    assert_eq!(fill(queue, "globex", "").await.0.len(), 7, "a quarter of the other 30");
    add(queue, "initech", "").await.unwrap();

    // A dead letter counts for its key until it is cancelled or expires.
    fail(queue, first[0], LATE_MS).await;
    assert!(fill(queue, "acme", "").await.0.is_empty());
    assert!(queue.cancel(first[0], LATE_MS).await.unwrap());
    assert!(queue.cancel(first[1], LATE_MS).await.unwrap());
    assert_eq!(fill(queue, "acme", "").await.0.len(), 0, "others have left 32, of which 8 are its");
    assert!(queue.cancel(first[2], LATE_MS).await.unwrap());
    assert_eq!(fill(queue, "acme", "").await.0.len(), 1);

    let (heavy, reason) = fill(queue, "heavy", &"x".repeat(20_000)).await;
    assert_eq!(heavy.len(), 1, "{reason}");
    assert!(reason.contains("their share"), "{reason}");
}

#[test]
fn a_key_has_a_share_of_the_queue_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = DiskQueue::open(folder.path(), &options()).unwrap();
    run(check_shares(&DeferredQueue::Disk(disk.clone())));
    assert!(disk.close(Duration::from_secs(30)));
    let (disk, recovered) = DiskQueue::open(folder.path(), &options()).unwrap();
    assert_eq!(recovered.queued.len(), 8 + 7 + 1 + 1);
    run(async {
        let queue = DeferredQueue::Disk(disk);
        assert!(fill(&queue, "acme", "").await.0.is_empty(), "shares survive a restart");
    });
}

#[test]
fn a_key_has_a_share_of_the_queue_in_redis() {
    let redis = Redis::start();
    run(async {
        let queue = redis_queue(&redis, &options()).await;
        check_shares(&DeferredQueue::Shared(queue)).await;
    });
}

async fn check_dead_letters(queue: &DeferredQueue) {
    let keep_ms = KEEP_DEAD.as_millis() as i64;
    let (ids, _) = fill(queue, "acme", "").await;
    fail(queue, ids[0], LATE_MS).await;
    fail(queue, ids[1], LATE_MS + 1).await;
    fail(queue, ids[2], LATE_MS).await;
    let details = queue.details(ids[0]).await.unwrap().unwrap();
    let shown = details.for_operator(&options());
    assert_eq!(shown["expires_ms"], LATE_MS + keep_ms);
    assert_eq!(details.for_client(None, 0, &options())["expires_ms"], LATE_MS + keep_ms);
    let queued = queue.details(ids[3]).await.unwrap().unwrap();
    assert!(queued.for_operator(&options())["expires_ms"].is_null());

    assert_eq!(queue.revive(ReviveSelection::One(ids[2]), LATE_MS + 5).await.unwrap().1, 1);
    queue.sweep(LATE_MS + keep_ms - 1).await.unwrap();
    assert_eq!(failed(queue).await.len(), 2);
    queue.sweep(LATE_MS + keep_ms).await.unwrap();
    assert_eq!(failed(queue).await, [ids[1]]);
    assert!(queue.details(ids[0]).await.unwrap().is_none());
    queue.sweep(LATE_MS + keep_ms + 1).await.unwrap();
    assert!(failed(queue).await.is_empty());
    assert_eq!(queue.summary().await.unwrap().counts, [8, 0, 0, 0, 0], "a revived one stays");
    assert_eq!(fill(queue, "acme", "").await.0.len(), 2, "its share is free again");
}

#[test]
fn dead_letters_on_disk_expire() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = DiskQueue::open(folder.path(), &options()).unwrap();
    run(check_dead_letters(&DeferredQueue::Disk(disk)));
}

#[test]
fn dead_letters_in_redis_expire() {
    let redis = Redis::start();
    run(async {
        let queue = redis_queue(&redis, &options()).await;
        check_dead_letters(&DeferredQueue::Shared(queue)).await;
    });
}

#[test]
fn dead_letters_that_expired_while_the_server_was_stopped_are_removed_at_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = DiskQueue::open(folder.path(), &options()).unwrap();
    let queue = DeferredQueue::Disk(disk.clone());
    let mut ids = Vec::new();
    run(async {
        ids = fill(&queue, "acme", "").await.0;
        fail(&queue, ids[0], 0).await;
        fail(&queue, ids[1], LATE_MS).await;
    });
    assert!(disk.close(Duration::from_secs(30)));
    let (disk, _) = DiskQueue::open(folder.path(), &options()).unwrap();
    let queue = DeferredQueue::Disk(disk);
    run(async {
        assert_eq!(failed(&queue).await, [ids[1]]);
        assert_eq!(fill(&queue, "acme", "").await.0.len(), 1, "its share is free again");
    });
}

#[test]
fn a_database_of_the_first_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = DiskQueue::open(folder.path(), &options()).unwrap();
    run(async {
        let queue = DeferredQueue::Disk(disk.clone());
        let ids = fill(&queue, "acme", "").await.0;
        fail(&queue, ids[0], LATE_MS).await;
    });
    assert!(disk.close(Duration::from_secs(30)));
    // The first version had no index of keys.
    let database = rusqlite::Connection::open(folder.path().join("deferred.db")).unwrap();
    database.execute_batch("DROP INDEX items_by_key; PRAGMA user_version = 1;").unwrap();
    drop(database);
    let (disk, recovered) = DiskQueue::open(folder.path(), &options()).unwrap();
    assert_eq!(recovered.queued.len(), 9);
    run(async {
        let queue = DeferredQueue::Disk(disk);
        assert_eq!(failed(&queue).await.len(), 1);
        assert!(fill(&queue, "acme", "").await.0.is_empty(), "its requests count for its share");
    });
}

/// Later versions must read these databases, of which each is the text of one schema version.
#[test]
fn databases_of_every_schema_version_are_read() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/formats");
    for version in 1..=2 {
        let dump =
            std::fs::read_to_string(formats.join(format!("deferred-{version}.sql"))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deferred.db");
        rusqlite::Connection::open(&path).unwrap().execute_batch(&dump).unwrap();
        // Nothing of the file is too old for such a queue.
        let keep = Duration::from_secs(1_000 * 365 * 86_400);
        let options = DeferOptions { keep, keep_dead: keep, ..options() };
        let (disk, recovered) = DiskQueue::open(folder.path(), &options).unwrap();
        let queued: Vec<(String, u32)> = recovered
            .queued
            .iter()
            .map(|item| (item.queue_key.key.to_string(), item.failures))
            .collect();
        assert_eq!(queued, [("acme".to_owned(), 0)], "version {version}");
        run(async {
            let queue = DeferredQueue::Disk(disk);
            let id = recovered.queued[0].id;
            let head = queue.head(id).await.unwrap().unwrap();
            let shown = format!("{head:?}");
            assert!(shown.contains("POST") && shown.contains("/report"), "{shown}");
            let started = queue.begin(id, LATE_MS).await.unwrap().unwrap();
            assert_eq!(&started.body[..], b"a report", "version {version}");
        });
    }
}

#[test]
fn a_queue_in_redis_that_counts_no_keys_is_counted_anew() {
    let redis = Redis::start();
    run(async {
        let queue = DeferredQueue::Shared(redis_queue(&redis, &options()).await);
        let (ids, _) = fill(&queue, "acme", "").await;
        fail(&queue, ids[0], LATE_MS).await;
        // The first version stored only the total.
        let base = "tollgate:{deferred:shop}";
        let counts = [format!("{base}:line_counts"), format!("{base}:line_bytes")];
        redis.command(&["DEL", &counts[0], &counts[1]]).unwrap();
        let kept = format!("{base}:kept");
        redis.command(&["HDEL", &kept, "recounted"]).unwrap();
        assert!(fill(&queue, "acme", "").await.0.is_empty());

        // A node of the first version ends requests without counting them out. They are counted
        // anew, at most once in ten minutes.
        redis.command(&["HSET", &counts[0], "shop\u{1f}report\u{1f}acme", "30"]).unwrap();
        assert!(queue.cancel(ids[1], LATE_MS).await.unwrap());
        assert!(fill(&queue, "acme", "").await.0.is_empty());
        redis.command(&["HSET", &kept, "recounted", &(LATE_MS - 600_000).to_string()]).unwrap();
        assert_eq!(fill(&queue, "acme", "").await.0.len(), 1);
    });
}
