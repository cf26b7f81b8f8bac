//! The servers, with real ones: how they are reached, and what trouble costs.

mod access;
mod cluster;
mod faults;
mod groups;
mod roads;
mod sentinel;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use sha1_smol::Sha1;
use tokio::time::{Instant, sleep, timeout};

use super::{Fleet, Place};
use crate::options::Options;
use crate::script::Script;
use crate::trouble::Trouble;
use crate::words::Words;

/// How long a test waits for what must come, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Counts how often it was called.
fn counting() -> Script {
    let body = "return redis.call('INCR', KEYS[1])\n";
    let library = "#!lua name=fleet_test\n\
         redis.register_function('fleet_test_count', function(keys)\n\
         return redis.call('INCR', keys[1]) end)\n";
    let sha1 = Sha1::from(body).digest().to_string();
    Script { function: "fleet_test_count".into(), library, text: body.into(), sha1 }
}

fn words(words: &[&str]) -> Words {
    let mut all = Words::default();
    words.iter().for_each(|word| all.push(word.as_bytes()));
    all
}

fn options(url: &str) -> Options {
    url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// With time-outs that no test of something else ever sees.
fn patient(url: &str) -> Options {
    let options = options(url).timeout(Duration::from_secs(20)).unwrap();
    options.connect_timeout(Duration::from_secs(20)).unwrap()
}

async fn open(options: &Options) -> Fleet {
    Fleet::open(options).await.unwrap()
}

impl Fleet {
    /// Counts up the key of a tag.
    async fn count(&self, tag: &str) -> Result<i64, Trouble> {
        self.count_at(self.place(tag.as_bytes()), tag).await
    }

    async fn count_at(&self, place: Place, tag: &str) -> Result<i64, Trouble> {
        let keys = words(&[&key(tag)]);
        match self.run(place, &counting(), &keys, &words(&[])).await? {
            Value::Int(count) => Ok(count),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until all servers are well, and says how long that took.
    async fn recover(&self) -> Duration {
        let started = Instant::now();
        let mut health = self.health();
        while !health.is_well() {
            let after = timeout(PATIENCE, self.health_after(&health)).await;
            health = after.unwrap_or_else(|_| panic!("still not well: {health:?}"));
        }
        started.elapsed()
    }

    /// Waits until some server is in trouble, and says which.
    async fn await_trouble(&self) -> String {
        let mut health = self.health();
        while health.is_well() {
            health = timeout(PATIENCE, self.health_after(&health)).await.expect("no trouble");
        }
        health.groups.iter().flat_map(|group| &group.troubles).next().unwrap().why.clone()
    }

    /// Counts until it works again, and says how long that took.
    async fn count_until_well(&self, tag: &str) -> Duration {
        let started = Instant::now();
        loop {
            match self.count(tag).await {
                Ok(_) => return started.elapsed(),
                Err(trouble) if started.elapsed() > PATIENCE => panic!("{trouble}"),
                Err(_) => sleep(Duration::from_millis(2)).await,
            }
        }
    }
}

fn key(tag: &str) -> String {
    format!("test:{{{tag}}}count")
}

/// What a trouble is about, for messages.
fn kind<T: std::fmt::Debug>(outcome: &Result<T, Trouble>) -> &'static str {
    match outcome {
        Ok(_) => "well",
        Err(trouble) => trouble.kind().as_str(),
    }
}

/// Runs `count` on many tasks at once, `each` times, and counts those that worked.
async fn hammer(
    fleet: &Fleet,
    tasks: usize,
    each: usize,
    tag: &'static str,
) -> (i64, Vec<Trouble>) {
    let fleet = Arc::new(fleet.clone());
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let fleet = fleet.clone();
            tokio::spawn(async move {
                let (mut done, mut troubles) = (0, Vec::new());
                for _ in 0..each {
                    match fleet.count(tag).await {
                        Ok(_) => done += 1,
                        Err(trouble) => {
                            troubles.push(trouble);
                            fleet.recover().await;
                        }
                    }
                }
                (done, troubles)
            })
        })
        .collect();
    let (mut done, mut troubles) = (0, Vec::new());
    for task in tasks {
        let (more, new) = task.await.unwrap();
        done += more;
        troubles.extend(new);
    }
    (done, troubles)
}
