//! The client against real servers: access, routing, and failures.

mod access;
mod cluster;
mod faults;
mod functions;
mod groups;
mod sentinel;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use sha1_smol::Sha1;
use tokio::time::{Instant, sleep, timeout};

use super::{RedisClient, Route};
use crate::arguments::Arguments;
use crate::error::CallError;
use crate::function::ServerFunction;
use crate::options::Options;

/// The maximum wait for an event, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A function that counts its calls.
fn counting() -> ServerFunction {
    let body = "return redis.call('INCR', KEYS[1])\n";
    let library = "#!lua name=client_test\n\
         redis.register_function('client_test_count', function(keys)\n\
         return redis.call('INCR', keys[1]) end)\n";
    let sha1 = Sha1::from(body).digest().to_string();
    ServerFunction {
        name: "client_test_count".into(),
        library: library.into(),
        script: body.into(),
        sha1,
    }
}

fn arguments(arguments: &[&str]) -> Arguments {
    let mut all = Arguments::default();
    arguments.iter().for_each(|argument| all.push(argument.as_bytes()));
    all
}

fn options(url: &str) -> Options {
    url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// Options with time-outs that only a hanging test reaches.
fn patient(url: &str) -> Options {
    let options = options(url).timeout(Duration::from_secs(20)).unwrap();
    options.connect_timeout(Duration::from_secs(20)).unwrap()
}

async fn open(options: &Options) -> RedisClient {
    RedisClient::open(options).await.unwrap()
}

impl RedisClient {
    /// Increments the key of a tag.
    async fn count(&self, tag: &str) -> Result<i64, CallError> {
        self.count_at(self.route(tag.as_bytes()), tag).await
    }

    async fn count_at(&self, route: Route, tag: &str) -> Result<i64, CallError> {
        let keys = arguments(&[&key(tag)]);
        match self.run(route, &counting(), &keys, &arguments(&[])).await? {
            Value::Int(count) => Ok(count),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until all servers are healthy, and returns how long that took.
    async fn recover(&self) -> Duration {
        let started = Instant::now();
        let mut health = self.health();
        while !health.is_healthy() {
            let after = timeout(PATIENCE, self.health_after(&health)).await;
            health = after.unwrap_or_else(|_| panic!("still not well: {health:?}"));
        }
        started.elapsed()
    }

    /// Waits until a server is down, and returns the reason.
    async fn await_trouble(&self) -> String {
        let mut health = self.health();
        while health.is_healthy() {
            health =
                timeout(PATIENCE, self.health_after(&health)).await.expect("no server went down");
        }
        health.groups.iter().flat_map(|group| &group.outages).next().unwrap().reason.clone()
    }

    /// Increments until it works again, and returns how long that took.
    async fn count_until_well(&self, tag: &str) -> Duration {
        let started = Instant::now();
        loop {
            match self.count(tag).await {
                Ok(_) => return started.elapsed(),
                Err(error) if started.elapsed() > PATIENCE => panic!("{error}"),
                Err(_) => sleep(Duration::from_millis(2)).await,
            }
        }
    }
}

fn key(tag: &str) -> String {
    format!("test:{{{tag}}}count")
}

/// Returns the kind of an error, or "well".
fn kind<T: std::fmt::Debug>(outcome: &Result<T, CallError>) -> &'static str {
    match outcome {
        Ok(_) => "well",
        Err(error) => error.kind().as_str(),
    }
}

/// Runs `count` on many tasks, `each` times, and returns the number of successes and all errors.
async fn hammer(
    client: &RedisClient,
    tasks: usize,
    each: usize,
    tag: &'static str,
) -> (i64, Vec<CallError>) {
    let client = Arc::new(client.clone());
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let (mut done, mut outages) = (0, Vec::new());
                for _ in 0..each {
                    match client.count(tag).await {
                        Ok(_) => done += 1,
                        Err(error) => {
                            outages.push(error);
                            client.recover().await;
                        }
                    }
                }
                (done, outages)
            })
        })
        .collect();
    let (mut done, mut outages) = (0, Vec::new());
    for task in tasks {
        let (more, new) = task.await.unwrap();
        done += more;
        outages.extend(new);
    }
    (done, outages)
}
