//! One connection. Requests of many callers share it: what is asked at the same time is written
//! together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Requests that wait to be written; the next ones wait for a place in line.
const LINE: usize = 256;

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    driver: AbortHandle,
    lost: Arc<AtomicBool>,
    /// How many answers have come.
    heard: AtomicU64,
}

impl Link {
    /// Takes over a stream. `bell` rings when it breaks.
    pub(super) async fn new<S>(stream: S, bell: Arc<Notify>) -> Result<Link, RedisError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Who we are is said by `dial.rs`, which words what is wrong with it.
        let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
        // How long to wait is up to the caller, who may be sent elsewhere within that time.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(LINE);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&nobody, stream, config).await?;
        let lost = Arc::new(AtomicBool::new(false));
        let flag = lost.clone();
        let task = tokio::spawn(async move {
            driver.await;
            flag.store(true, Ordering::Release);
            bell.notify_one();
        });
        Ok(Link { connection, driver: task.abort_handle(), lost, heard: AtomicU64::new(0) })
    }

    /// Sends a command and waits for the answer. An error of the server is a value.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let answer = self.connection.clone().send_packed_command(command).await;
        self.hear(&answer);
        answer
    }

    /// Sends commands together; nobody else's come between them.
    pub(super) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let mut connection = self.connection.clone();
        let answer = connection.send_packed_commands(commands, 0, commands.len()).await;
        self.hear(&answer);
        answer
    }

    fn hear<T>(&self, answer: &Result<T, RedisError>) {
        if answer.is_ok() {
            self.heard.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Hangs up. Whoever waits for an answer is told at once that there will be none.
    pub(super) fn hang_up(&self) {
        self.lost.store(true, Ordering::Release);
        self.driver.abort();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
