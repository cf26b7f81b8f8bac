//! Answers of the store that are lost: what it did is done once, and nothing is forgotten.

use std::time::Duration;

use tokio::time::interval;
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::{Proxy, Redis};

use super::InRedis;
use crate::deferred::item::{ItemId, State};
use crate::deferred::lines::{Lines, Next};
use crate::deferred::queue::{End, QueueError};
use crate::deferred::tests::{item, line, options, run};

/// A store, a way to it that can lose answers, and who asks.
struct Stage {
    redis: Redis,
    proxy: Proxy,
    queue: InRedis,
    lines: Lines,
}

impl Stage {
    async fn set() -> Stage {
        let redis = Redis::start();
        let proxy = Proxy::start(redis.port());
        let options_of_store: Options = proxy.url().parse().unwrap();
        let patient = options_of_store.timeout(Duration::from_secs(10)).unwrap();
        let store = RedisStore::connect(patient).await.unwrap();
        let queue = InRedis::new(store.desk("shop"), &options()).unwrap();
        Stage { redis, proxy, queue, lines: Lines::new().0 }
    }

    /// Asks the store without the way that loses answers.
    fn ask(&self, words: &[&str]) -> String {
        let words: Vec<String> =
            words.iter().map(|word| word.replace("BASE", "tollgate:{deferred:shop}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.redis.command(&words).unwrap().text()
    }

    /// How many requests wait or are on their way.
    fn open(&self) -> usize {
        self.ask(&["XLEN", "BASE:stream"]).parse().unwrap()
    }

    /// How many are kept, as far as the bounds are concerned.
    fn kept(&self) -> String {
        self.ask(&["HGET", "BASE:kept", "count"])
    }

    /// Answers are heard again.
    async fn heal(&self) {
        self.proxy.swallow_replies(false);
        let mut ticks = interval(Duration::from_millis(10));
        while self.queue.summary().await.is_err() {
            ticks.tick().await;
        }
    }

    /// Does something whose answer is lost, until that has an effect.
    async fn unheard<T: std::fmt::Debug>(
        &self,
        ask: impl AsyncFn() -> Result<T, QueueError>,
        is_done: impl AsyncFn() -> bool,
    ) {
        while !is_done().await {
            self.proxy.swallow_replies(true);
            ask().await.unwrap_err();
            self.heal().await;
        }
    }

    fn next(&self) -> Option<ItemId> {
        match self.lines.next(&line("acme"), 0) {
            Next::Now(waiting) => Some(waiting.id),
            _ => None,
        }
    }

    async fn state(&self, id: ItemId) -> Option<State> {
        self.queue.entry(id).await.unwrap().map(|entry| entry.state)
    }
}

#[test]
fn a_request_whose_answer_is_lost_is_kept_once_and_its_client_told_so() {
    run(async {
        let stage = Stage::set().await;
        let mut ticks = interval(Duration::from_millis(5));
        let told = loop {
            stage.proxy.swallow_replies(true);
            let (queue, new) = (stage.queue.clone(), item("acme", "one", 1_000));
            let adding = tokio::spawn(async move { queue.add(new).await });
            while stage.open() == 0 && !adding.is_finished() {
                ticks.tick().await;
            }
            stage.proxy.swallow_replies(false);
            let told = adding.await.unwrap();
            if stage.open() > 0 {
                break told;
            }
            stage.heal().await;
        };
        told.unwrap();
        assert_eq!((stage.open(), stage.kept().as_str()), (1, "1"));
        stage.queue.take_back().await.unwrap();
        assert_eq!(stage.open(), 1, "nobody was told that it was not kept");
    });
}

#[test]
fn a_request_whose_client_was_told_otherwise_is_taken_back() {
    run(async {
        let stage = Stage::set().await;
        let new = item("acme", "one", 1_000);
        let id = new.id;
        stage.unheard(async || stage.queue.add(new.clone()).await, async || stage.open() > 0).await;
        stage.queue.take_back().await.unwrap();
        assert_eq!((stage.open(), stage.kept().as_str()), (0, "0"));
        assert_eq!(stage.state(id).await, Some(State::Cancelled));

        // One that is still on its way to the store when it is taken back.
        let late = item("acme", "two", 1_000);
        stage.queue.0.unheard.note(late.id);
        stage.queue.take_back().await.unwrap();
        stage.queue.add(late).await.unwrap_err();
        assert_eq!((stage.open(), stage.kept().as_str()), (0, "0"));

        // One that was sent meanwhile stays as it is.
        let sent = item("acme", "three", 1_000);
        let id = sent.id;
        stage.queue.add(sent).await.unwrap();
        stage.queue.look(&stage.lines).await.unwrap();
        stage.queue.begin(id, 2_000).await.unwrap().unwrap();
        stage.queue.0.unheard.note(id);
        stage.queue.take_back().await.unwrap();
        assert_eq!(stage.state(id).await, Some(State::Sending));
    });
}

#[test]
fn what_a_node_took_or_began_without_hearing_of_it_is_sent() {
    run(async {
        let stage = Stage::set().await;
        let new = item("acme", "one", 1_000);
        let id = new.id;
        stage.queue.add(new).await.unwrap();
        let taken = async || {
            let pending = ["XPENDING", "BASE:stream", "tollgate", "-", "+", "10"];
            let words = pending.map(|word| word.replace("BASE", "tollgate:{deferred:shop}"));
            let pending = stage.redis.command(&words.each_ref().map(String::as_str));
            pending.is_ok_and(|pending| !pending.list().is_empty())
        };
        stage.unheard(async || stage.queue.look(&stage.lines).await, taken).await;
        stage.queue.look(&stage.lines).await.unwrap();
        assert_eq!(stage.next(), None, "it is this node's already");
        stage.queue.beat(&stage.lines).await.unwrap();
        assert_eq!(stage.next(), Some(id));

        let begun = async || stage.state(id).await == Some(State::Sending);
        stage.unheard(async || stage.queue.begin(id, 2_000).await, begun).await;
        stage.queue.beat(&stage.lines).await.unwrap();
        assert_eq!((stage.state(id).await, stage.next()), (Some(State::Queued), Some(id)));

        // What is on its way is left alone.
        stage.queue.begin(id, 3_000).await.unwrap().unwrap();
        stage.lines.leave(id);
        stage.queue.beat(&stage.lines).await.unwrap();
        assert_eq!((stage.state(id).await, stage.next()), (Some(State::Sending), None));

        let done = || End { state: State::Done, why: None, answer: None };
        let over = async || stage.state(id).await == Some(State::Done);
        stage.unheard(async || stage.queue.end(id, done(), 4_000).await, over).await;
        stage.queue.end(id, done(), 5_000).await.unwrap();
        assert_eq!((stage.open(), stage.kept().as_str()), (0, "0"), "it ended once");
    });
}
