//! The door of the Redis protocol.

use crate::net::{Connection, Door};
use crate::server::Context;

/// The door of the Redis protocol.
#[derive(Clone, Debug)]
pub(crate) struct RespDoor {
    context: Context,
}

impl RespDoor {
    pub(crate) fn new(context: Context) -> RespDoor {
        RespDoor { context }
    }
}

impl Door for RespDoor {
    async fn serve(&self, connection: Connection) {
        let _ = &self.context;
        connection.stream.close().await;
    }
}
