//! The RESP door: Redis clients ask for decisions over the Redis protocol.
//!
//! | file | what happens there |
//! | --- | --- |
//! | `connection`, `read_buffer`, `idle_timeout` | reads and writes, closes idle and slow connections |
//! | `parser`, `inline_command`, `command` | bytes become commands |
//! | `session`, `command_table` | commands are run in order |
//! | `batch` | consecutive decisions are made together |
//! | `throttle`, `arguments`, `client_identity`, `introspection` | the arguments of single commands |
//! | `reply_buffer`, `decision_reply` | replies become bytes |

mod arguments;
mod batch;
mod client_identity;
mod command;
mod command_table;
mod connection;
mod decision_reply;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;
mod idle_timeout;
mod inline_command;
mod introspection;
mod parser;
mod read_buffer;
mod reply_buffer;
mod session;
mod throttle;

use crate::net::{Connection, Door};
use crate::server::Context;

/// The RESP door.
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
        connection::serve(&self.context, connection).await;
    }
}
