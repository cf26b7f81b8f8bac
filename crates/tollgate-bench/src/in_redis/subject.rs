//! Limiters that this process drives itself, all through the same client library.

use std::time::Duration;

use redis::{Value, cmd};
use tollgate::{Bucket, Check, Consistency, Limit, Store};
use tollgate_redis::{Options, RedisStore};

use super::limit::Daily;
use super::links::{CONNECTIONS, Links};

/// Long enough for a machine that others work on: this is not about time-outs.
const PATIENCE: Duration = Duration::from_secs(10);

/// A script that Redis keeps and runs by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    TokenBucket,
    Gcra,
}

/// A limiter, and the limit it keeps.
pub(crate) enum Subject {
    /// EVALSHA of a script, with these arguments.
    Bare { links: Links, sha: String, prefix: &'static str, args: Vec<String> },
    /// `CL.THROTTLE`.
    RedisCell { links: Links, args: Vec<String> },
    /// Ours: several limits on one key are one call.
    Tollgate { store: Box<RedisStore>, limits: Vec<(Bucket, Limit)>, consistency: Consistency },
}

impl Subject {
    pub(crate) async fn bare(url: &str, script: Script, limit: Daily) -> Result<Subject, String> {
        let links = Links::open(url).await?;
        let (prefix, source, args) = match script {
            Script::TokenBucket => {
                ("bucket", include_str!("token_bucket.lua"), limit.token_bucket())
            }
            Script::Gcra => ("gcra", include_str!("gcra.lua"), limit.gcra()),
        };
        let loaded = links.send(cmd("SCRIPT").arg("LOAD").arg(source)).await?;
        let sha = redis::from_redis_value(loaded).map_err(|error| error.to_string())?;
        Ok(Subject::Bare { links, sha, prefix, args: args.into() })
    }

    pub(crate) async fn redis_cell(url: &str, limit: Daily) -> Result<Subject, String> {
        let args = limit.redis_cell().into();
        Ok(Subject::RedisCell { links: Links::open(url).await?, args })
    }

    /// With a prefix of its own, so that nobody shares counters.
    pub(crate) async fn tollgate(
        url: &str,
        prefix: &str,
        limits: &[Daily],
        consistency: Consistency,
    ) -> Result<Subject, String> {
        let options = url.parse::<Options>().and_then(|options| options.prefix(prefix));
        let options =
            options.and_then(|options| options.connections(CONNECTIONS)?.timeout(PATIENCE));
        let store = RedisStore::connect(options.map_err(|error| error.to_string())?).await;
        let store = Box::new(store.map_err(|error| error.to_string())?);
        let limits = limits.iter().zip(0..).map(|(limit, number)| {
            let limit = limit.text().parse::<Limit>().map_err(|error| error.to_string())?;
            Ok((Bucket::new(number), limit))
        });
        let limits = limits.collect::<Result<_, String>>()?;
        Ok(Subject::Tollgate { store, limits, consistency })
    }

    /// One decision.
    pub(crate) async fn allows(&self, key: &str) -> Result<bool, String> {
        match self {
            Subject::Bare { links, sha, prefix, args } => {
                let mut command = cmd("EVALSHA");
                command.arg(sha).arg(1).arg(format!("{prefix}:{}:{key}", args[0])).arg(args);
                first(&links.send(command.arg(1)).await?).map(|allowed| allowed == 1)
            }
            Subject::RedisCell { links, args } => {
                let mut command = cmd("CL.THROTTLE");
                command.arg(format!("cell:{}:{key}", args[1])).arg(args);
                first(&links.send(command.arg(1)).await?).map(|limited| limited == 0)
            }
            Subject::Tollgate { store, limits, consistency } => {
                let checks = limits.iter().map(|(bucket, limit)| Check {
                    consistency: *consistency,
                    ..Check::new(*bucket, key, limit, 1)
                });
                let checks: Vec<Check> = checks.collect();
                let verdicts = store.decide(&checks).await.map_err(|error| error.to_string())?;
                Ok(verdicts.iter().all(|verdict| verdict.allowed))
            }
        }
    }
}

/// The first number of an answer.
fn first(answer: &Value) -> Result<i64, String> {
    match answer {
        Value::Array(items) => match items.first() {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(format!("a strange answer: {answer:?}")),
        },
        _ => Err(format!("a strange answer: {answer:?}")),
    }
}
