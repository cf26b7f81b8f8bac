//! The door of the Redis protocol: any client of Redis can ask for decisions.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `connection`, `input`, `vigil` | reading, sending, letting go of who is silent or slow |
//! | `request`, `inline`, `command` | bytes become commands |
//! | `session`, `table` | commands become calls, in order |
//! | `batch` | consecutive decisions are made together |
//! | `throttle`, `asking`, `greet`, `about` | what single commands mean |
//! | `reply`, `fields` | answers become bytes |

mod about;
mod asking;
mod batch;
mod command;
mod connection;
mod fields;
mod greet;
mod inline;
mod input;
mod reply;
mod request;
mod session;
mod table;
mod throttle;
mod vigil;

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
        connection::serve(&self.context, connection).await;
    }
}
