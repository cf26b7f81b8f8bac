//! Connections as tollgate's own store keeps them: few, and shared by all callers.

use std::cell::Cell;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Value};

/// As many as the store has to each server.
pub(crate) const CONNECTIONS: usize = 2;

/// Connections to take turns with.
pub(crate) struct Links {
    links: Vec<MultiplexedConnection>,
    turn: Cell<usize>,
}

impl Links {
    pub(crate) async fn open(url: &str) -> Result<Links, String> {
        let failed = |error: redis::RedisError| error.to_string();
        let client = Client::open(url).map_err(failed)?;
        let mut links = Vec::new();
        for _ in 0..CONNECTIONS {
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let link = client.get_multiplexed_async_connection_with_config(&config).await;
            links.push(link.map_err(failed)?);
        }
        Ok(Links { links, turn: Cell::new(0) })
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, String> {
        let turn = self.turn.get();
        self.turn.set((turn + 1) % self.links.len());
        let answer = self.links[turn].clone().send_packed_command(command).await;
        answer.and_then(Value::extract_error).map_err(|error| error.to_string())
    }
}
