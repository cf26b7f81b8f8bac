//! The Lua functions of the deferred queue, called over the connections of the counter store.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use tollgate::StoreError;
use tollgate_redis::{RedisClient, ServerFunction, ServerReply};

/// The time-out of a call. Bodies are larger than counters, and no decision waits for them.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The function that runs every operation of the queue.
static DEFERRED: LazyLock<ServerFunction> =
    LazyLock::new(|| ServerFunction::new("deferred", include_str!("deferred.lua")));

/// Calls the Lua functions on the deferred queue of one domain.
#[derive(Clone)]
pub(super) struct QueueFunctions {
    client: RedisClient,
    /// The text between the braces of all keys.
    tag: Vec<u8>,
    key: Vec<u8>,
    guard: Vec<u8>,
}

impl QueueFunctions {
    pub(super) fn new(client: RedisClient, domain: &str) -> QueueFunctions {
        // A brace in the domain would end the tag.
        let domain = domain.replace(['{', '}'], "_");
        let tag = format!("deferred:{domain}");
        let key = format!("{}:{{{tag}}}", client.prefix());
        // Neither of the two keys ever exists. While a cluster moves their slot, it answers TRYAGAIN
        // to a call on two keys that are missing, so no call sees half of the queue.
        let guard = format!("{key}:guard").into_bytes();
        QueueFunctions { client, tag: tag.into_bytes(), key: key.into_bytes(), guard }
    }

    /// Runs one operation, all or nothing: its name, followed by its arguments.
    pub(super) async fn call(&self, args: &[&[u8]]) -> Result<ServerReply, StoreError> {
        self.client.call(&DEFERRED, &self.tag, &[&self.key, &self.guard], args, TIMEOUT).await
    }
}

impl fmt::Debug for QueueFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueFunctions").field("key", &String::from_utf8_lossy(&self.key)).finish()
    }
}
