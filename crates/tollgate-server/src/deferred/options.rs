//! Options of the deferred queue.

use std::time::Duration;

/// The options of the deferred queue (`then: defer`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeferOptions {
    /// The path prefix of status requests, which are never forwarded to an upstream.
    pub prefix: String,
    /// The maximum size of a body, in bytes.
    pub body: usize,
    /// The maximum number of stored requests, including dead letters.
    pub count: usize,
    /// The maximum total size of stored requests, in bytes.
    pub bytes: u64,
    /// The maximum number of attempts before a request becomes a dead letter.
    pub attempts: u32,
    /// The maximum age of a request at its next attempt.
    pub give_up: Duration,
    /// The time for which the status of a finished request is available.
    pub keep: Duration,
    /// The first pause between attempts; it doubles each time.
    pub backoff: Duration,
    /// The maximum number of requests in flight.
    pub in_flight: usize,
    /// In a shared store, the time after which other nodes take over a silent node's requests.
    pub take_over: Duration,
}

impl Default for DeferOptions {
    fn default() -> DeferOptions {
        DeferOptions {
            prefix: "/.tollgate/deferred/".to_owned(),
            body: 1 << 20,
            count: 10_000,
            bytes: 256 << 20,
            attempts: 10,
            give_up: Duration::from_secs(24 * 3600),
            keep: Duration::from_secs(3600),
            backoff: Duration::from_secs(1),
            in_flight: 64,
            take_over: Duration::from_secs(15),
        }
    }
}
