//! Limiters that this process drives, all through the same client library.

use std::time::Duration;

use redis::{Value, cmd};
use tollgate::{Check, Consistency, CounterId, Limit, Store};
use tollgate_redis::{Options, RedisStore};

use super::connections::{CONNECTIONS, ConnectionPool};
use super::limit::DailyLimit;

/// The timeout of a store: long, since the machine may be busy and timeouts are not measured.
const PATIENCE: Duration = Duration::from_secs(10);

/// A script that Redis stores and runs by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    TokenBucket,
    Gcra,
}

/// A limiter with its limit.
pub(crate) enum RedisSubject {
    /// A script run by EVALSHA, with these arguments.
    Bare { connections: ConnectionPool, sha: String, prefix: &'static str, args: Vec<String> },
    /// The command `CL.THROTTLE` of redis-cell.
    RedisCell { connections: ConnectionPool, args: Vec<String> },
    /// The store of tollgate: several limits on one key are one call.
    Tollgate { store: Box<RedisStore>, limits: Vec<(CounterId, Limit)>, consistency: Consistency },
}

impl RedisSubject {
    pub(crate) async fn bare(
        url: &str,
        script: Script,
        limit: DailyLimit,
    ) -> Result<RedisSubject, String> {
        let connections = ConnectionPool::open(url).await?;
        let (prefix, source, args) = match script {
            Script::TokenBucket => {
                ("bucket", include_str!("token_bucket.lua"), limit.token_bucket())
            }
            Script::Gcra => ("gcra", include_str!("gcra.lua"), limit.gcra()),
        };
        let loaded = connections.send(cmd("SCRIPT").arg("LOAD").arg(source)).await?;
        let sha = redis::from_redis_value(loaded).map_err(|error| error.to_string())?;
        Ok(RedisSubject::Bare { connections, sha, prefix, args: args.into() })
    }

    pub(crate) async fn redis_cell(url: &str, limit: DailyLimit) -> Result<RedisSubject, String> {
        let args = limit.redis_cell().into();
        Ok(RedisSubject::RedisCell { connections: ConnectionPool::open(url).await?, args })
    }

    /// Connects to tollgate's store with a prefix of its own, so that counters are not shared.
    pub(crate) async fn tollgate(
        url: &str,
        prefix: &str,
        limits: &[DailyLimit],
        consistency: Consistency,
    ) -> Result<RedisSubject, String> {
        let options = url.parse::<Options>().and_then(|options| options.prefix(prefix));
        let options =
            options.and_then(|options| options.connections(CONNECTIONS)?.timeout(PATIENCE));
        let store = RedisStore::connect(options.map_err(|error| error.to_string())?).await;
        let store = Box::new(store.map_err(|error| error.to_string())?);
        let limits = limits.iter().zip(0..).map(|(limit, number)| {
            let limit = limit.text().parse::<Limit>().map_err(|error| error.to_string())?;
            Ok((CounterId::new(number), limit))
        });
        let limits = limits.collect::<Result<_, String>>()?;
        Ok(RedisSubject::Tollgate { store, limits, consistency })
    }

    /// Makes one decision.
    pub(crate) async fn allows(&self, key: &str) -> Result<bool, String> {
        match self {
            RedisSubject::Bare { connections, sha, prefix, args } => {
                let mut command = cmd("EVALSHA");
                command.arg(sha).arg(1).arg(format!("{prefix}:{}:{key}", args[0])).arg(args);
                first(&connections.send(command.arg(1)).await?).map(|allowed| allowed == 1)
            }
            RedisSubject::RedisCell { connections, args } => {
                let mut command = cmd("CL.THROTTLE");
                command.arg(format!("cell:{}:{key}", args[1])).arg(args);
                first(&connections.send(command.arg(1)).await?).map(|limited| limited == 0)
            }
            RedisSubject::Tollgate { store, limits, consistency } => {
                let checks = limits.iter().map(|(counter, limit)| Check {
                    consistency: *consistency,
                    ..Check::new(*counter, key, limit, 1)
                });
                let checks: Vec<Check> = checks.collect();
                let verdicts = store.decide(&checks).await.map_err(|error| error.to_string())?;
                Ok(verdicts.iter().all(|verdict| verdict.allowed))
            }
        }
    }
}

/// Returns the first number of a reply.
fn first(reply: &Value) -> Result<i64, String> {
    match reply {
        Value::Array(items) => match items.first() {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(format!("an unexpected reply: {reply:?}")),
        },
        _ => Err(format!("an unexpected reply: {reply:?}")),
    }
}
