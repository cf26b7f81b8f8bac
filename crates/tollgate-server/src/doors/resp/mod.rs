//! The RESP door: Redis clients ask for decisions over the Redis protocol.
//!
//! | file | what happens there |
//! | --- | --- |
//! | `connection`, `read_buffer`, `idle_timeout` | reads and writes, closes idle and slow connections |
//! | `parser`, `inline_command`, `command` | bytes become commands |
//! | `session`, `command_table` | commands are run in order |
//! | `batch` | consecutive decisions are made together |
//! | `session/` | the groups of commands: decisions, transactions, keys, scripts |
//! | `throttle`, `arguments`, `client_identity`, `introspection` | the arguments of single commands |
//! | `scripts/` | scripts that run without Lua: published ones by their hash, and `cl.throttle` |
//! | `keys/` | the keys that those scripts use |
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
mod keys;
mod parser;
mod read_buffer;
mod reply_buffer;
mod scripts;
mod session;
mod throttle;

use std::sync::Arc;

use crate::net::{Connection, Door};
use crate::server::Context;

/// The RESP door.
#[derive(Clone, Debug)]
pub(crate) struct RespDoor {
    context: Context,
    shared: Arc<SharedState>,
}

/// What the connections of the door share beside the decisions.
#[derive(Debug, Default)]
struct SharedState {
    /// The keys of script libraries.
    keys: keys::ScriptKeys,
    /// The scripts that clients have loaded.
    scripts: scripts::LoadedScripts,
}

impl RespDoor {
    pub(crate) fn new(context: Context) -> RespDoor {
        RespDoor { context, shared: Arc::default() }
    }
}

impl Door for RespDoor {
    async fn serve(&self, connection: Connection) {
        connection::serve(&self.context, &self.shared, connection).await;
    }
}
