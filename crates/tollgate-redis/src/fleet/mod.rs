//! The servers, and how to reach them.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::OnceCell;

use crate::options::Options;
use crate::script::{LIBRARY, Script};
use crate::server_clock::ServerClock;
use crate::trouble::{ConnectError, Trouble};
use crate::words::Words;

/// Where a key lives: keys of the same place are decided in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) group: u16,
    /// 0 unless the group is a cluster.
    pub(crate) slot: u16,
}

/// All servers. Clones share connections.
#[derive(Clone, Debug)]
pub(crate) struct Fleet(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    url: String,
    timeout: Duration,
    connection: OnceCell<MultiplexedConnection>,
    clock: Arc<ServerClock>,
}

impl Fleet {
    pub(crate) async fn open(options: &Options) -> Result<Fleet, ConnectError> {
        let url = std::env::var("TOLLGATE_TEST_REDIS").unwrap_or_default();
        Ok(Fleet(Arc::new(Shared {
            url,
            timeout: options.timeout,
            connection: OnceCell::new(),
            clock: Arc::default(),
        })))
    }

    pub(crate) fn place(&self, _tag: &[u8]) -> Place {
        Place { group: 0, slot: 0 }
    }

    pub(crate) fn clock(&self, _place: Place) -> Arc<ServerClock> {
        self.0.clock.clone()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    pub(crate) async fn run(
        &self,
        _place: Place,
        script: &Script,
        keys: &Words,
        args: &Words,
    ) -> Result<Value, Trouble> {
        let server: Arc<str> = self.0.url.as_str().into();
        let connect = || async {
            redis::Client::open(self.0.url.as_str())?.get_multiplexed_async_connection().await
        };
        let connection = self.0.connection.get_or_try_init(connect).await;
        let mut connection =
            connection.map_err(|error| Trouble::unreachable(&server, error))?.clone();
        let mut command = redis::cmd("FCALL");
        if std::env::var("TOLLGATE_TEST_EVAL").is_ok() {
            command = redis::cmd("EVALSHA");
            command.arg(&script.sha1);
        } else {
            command.arg(&script.function);
        }
        command.arg(keys.len()).arg(keys).arg(args);
        for _ in 0..2 {
            let answer: redis::RedisResult<Value> = command.query_async(&mut connection).await;
            match answer {
                Err(error) if error.to_string().contains("unction not found") => {
                    let load: redis::RedisResult<Value> = redis::cmd("FUNCTION")
                        .arg("LOAD")
                        .arg(&LIBRARY.text)
                        .query_async(&mut connection)
                        .await;
                    load.map_err(|error| Trouble::refused(&server, error))?;
                }
                Err(error)
                    if error.to_string().contains("NOSCRIPT")
                        || error.to_string().contains("NoScript") =>
                {
                    let load: redis::RedisResult<Value> = redis::cmd("SCRIPT")
                        .arg("LOAD")
                        .arg(&script.text)
                        .query_async(&mut connection)
                        .await;
                    load.map_err(|error| Trouble::refused(&server, error))?;
                }
                Err(error) => return Err(Trouble::refused(&server, error)),
                Ok(value) => return Ok(value),
            }
        }
        Err(Trouble::refused(&server, "it forgets its functions"))
    }
}
