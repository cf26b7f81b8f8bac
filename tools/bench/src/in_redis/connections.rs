//! Connections like those of tollgate's own store: few, and shared by all callers.

use std::cell::Cell;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Value};

/// The number of connections, as in the store.
pub(crate) const CONNECTIONS: usize = 2;

/// A pool of connections, used in turn.
pub(crate) struct ConnectionPool {
    connections: Vec<MultiplexedConnection>,
    turn: Cell<usize>,
}

impl ConnectionPool {
    pub(crate) async fn open(url: &str) -> Result<ConnectionPool, String> {
        let failed = |error: redis::RedisError| error.to_string();
        let client = Client::open(url).map_err(failed)?;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let connection = client.get_multiplexed_async_connection_with_config(&config).await;
            connections.push(connection.map_err(failed)?);
        }
        Ok(ConnectionPool { connections, turn: Cell::new(0) })
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, String> {
        let turn = self.turn.get();
        self.turn.set((turn + 1) % self.connections.len());
        let reply = self.connections[turn].clone().send_packed_command(command).await;
        reply.and_then(Value::extract_error).map_err(|error| error.to_string())
    }
}
