//! How much is deferred, for how long, and how often it is tried.

use std::time::Duration;

/// How requests over the limit of a rule with `then: defer` are kept and replayed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeferOptions {
    /// Where clients ask what became of a request; never sent on to an upstream.
    pub prefix: String,
    /// The longest body that is kept, in bytes.
    pub body: usize,
    /// How many requests are kept at most, dead letters included.
    pub count: usize,
    /// What they may weigh together, in bytes.
    pub bytes: u64,
    /// How often a request is sent before it is a dead letter.
    pub attempts: u32,
    /// How old a request may be when it is tried again.
    pub give_up: Duration,
    /// How long clients can ask about a request that is done.
    pub keep: Duration,
    /// What the pauses between attempts begin with; they double each time.
    pub backoff: Duration,
    /// How many requests are sent at the same time.
    pub in_flight: usize,
    /// In a shared store: how long a node may be silent before others take over its requests.
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
