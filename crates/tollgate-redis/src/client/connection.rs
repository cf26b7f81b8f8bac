//! One connection. Many callers share it, and commands sent at the same time are written together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The capacity of the write queue; further commands wait to enter it.
const WRITE_QUEUE: usize = 256;

/// A connection that many callers share.
#[derive(Debug)]
pub(super) struct Connection {
    connection: MultiplexedConnection,
    driver: AbortHandle,
    closed: Arc<AtomicBool>,
    /// The number of replies received.
    replies: AtomicU64,
}

impl Connection {
    /// Takes over a stream. `wakeup` is notified when it breaks.
    pub(super) async fn new<S>(stream: S, wakeup: Arc<Notify>) -> Result<Connection, RedisError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // `connector.rs` authenticates, so that it can explain what went wrong.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        // The caller limits the wait, because a redirect may use up part of it.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(WRITE_QUEUE);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&info, stream, config).await?;
        let closed = Arc::new(AtomicBool::new(false));
        let flag = closed.clone();
        let task = tokio::spawn(async move {
            driver.await;
            flag.store(true, Ordering::Release);
            wakeup.notify_one();
        });
        Ok(Connection {
            connection,
            driver: task.abort_handle(),
            closed,
            replies: AtomicU64::new(0),
        })
    }

    /// Sends a command and waits for its reply. An error of the server is a value.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let answer = self.connection.clone().send_packed_command(command).await;
        self.count_reply(&answer);
        answer
    }

    /// Sends commands together, with no other caller's between them.
    pub(super) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let mut connection = self.connection.clone();
        let answer = connection.send_packed_commands(commands, 0, commands.len()).await;
        self.count_reply(&answer);
        answer
    }

    fn count_reply<T>(&self, answer: &Result<T, RedisError>) {
        if answer.is_ok() {
            self.replies.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn replies(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the connection. Commands without a reply fail at once.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.driver.abort();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
