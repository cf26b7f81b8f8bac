//! Work beside the requests: threads and tasks that must outlive a panic.
//!
//! A panic is a bug, and must not become an outage. Every thread and every task of the server is a
//! [`BackgroundWorker`], and has one of these fates:
//!
//! | worker | after a panic |
//! | --- | --- |
//! | a loop (accepting, telemetry, health checks, replay, …) | starts again after a pause that grows to half a minute |
//! | a thread with jobs (databases, snapshots, sources of rules) | the job fails; the thread goes on with the next |
//! | a connection, a stream, a call | it ends; its client sees a closed connection or an error |
//!
//! Each panic is logged, counted (`tollgate_worker_panics_total`) and listed by `/readyz`. The counts
//! belong to the process, as the panic hook of the standard library does: threads that were started
//! without a server have them too.
//!
//! Tests inject panics with [`panic_point`], which is empty in every other build.

mod injection;
mod panic_counts;
mod supervise;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use injection::inject_panics;
pub(crate) use injection::panic_point;
pub(crate) use panic_counts::{PanicCount, PanicGuard, panic_counts, panic_text, record_panic};
pub(crate) use supervise::{catch_panic, catch_panic_async, guarded, spawn_restarting};

/// A thread or a task that runs beside the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackgroundWorker {
    /// Accepts the connections of a door.
    Accept,
    /// Serves a connection of any door.
    Connection,
    /// Serves a stream of an HTTP/2 connection.
    Stream,
    /// Answers a gRPC call that has to wait.
    GrpcCall,
    /// Counts the seconds of the telemetry.
    Telemetry,
    /// Sends statistics to a statsd server.
    Statsd,
    /// Writes snapshots of the counters.
    Snapshots,
    /// Follows the origin of the rules.
    RulesSource,
    /// Owns the database of the rules service.
    RulesDatabase,
    /// Follows a file of API keys or of the keys of tokens.
    IdentityFile,
    /// Follows the URL of the keys of tokens.
    TokenKeys,
    /// Logs changes of the store's health.
    StoreHealth,
    /// Compares the key secret with the one in the store.
    KeySecret,
    /// Closes the unused connections of an upstream, and checks its health.
    Upstream,
    /// Carries the requests of one connection to an upstream.
    UpstreamConnection,
    /// Owns the database of the deferred queue.
    DeferredDatabase,
    /// Stores a deferred request.
    DeferredAdd,
    /// Starts the replay of deferred requests, and removes old ones.
    DeferredDispatch,
    /// Shares the deferred queue in the store with other servers.
    DeferredShare,
    /// Replays one queue of deferred requests.
    DeferredReplay,
    /// Sends one deferred request.
    DeferredDelivery,
    /// Settles a reservation.
    Settlement,
}

impl BackgroundWorker {
    /// All workers, in the order of their numbers.
    pub(crate) const ALL: [BackgroundWorker; 22] = [
        BackgroundWorker::Accept,
        BackgroundWorker::Connection,
        BackgroundWorker::Stream,
        BackgroundWorker::GrpcCall,
        BackgroundWorker::Telemetry,
        BackgroundWorker::Statsd,
        BackgroundWorker::Snapshots,
        BackgroundWorker::RulesSource,
        BackgroundWorker::RulesDatabase,
        BackgroundWorker::IdentityFile,
        BackgroundWorker::TokenKeys,
        BackgroundWorker::StoreHealth,
        BackgroundWorker::KeySecret,
        BackgroundWorker::Upstream,
        BackgroundWorker::UpstreamConnection,
        BackgroundWorker::DeferredDatabase,
        BackgroundWorker::DeferredAdd,
        BackgroundWorker::DeferredDispatch,
        BackgroundWorker::DeferredShare,
        BackgroundWorker::DeferredReplay,
        BackgroundWorker::DeferredDelivery,
        BackgroundWorker::Settlement,
    ];

    /// Returns the name in logs, metrics and `/readyz`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            BackgroundWorker::Accept => "accept",
            BackgroundWorker::Connection => "connection",
            BackgroundWorker::Stream => "stream",
            BackgroundWorker::GrpcCall => "grpc_call",
            BackgroundWorker::Telemetry => "telemetry",
            BackgroundWorker::Statsd => "statsd",
            BackgroundWorker::Snapshots => "snapshots",
            BackgroundWorker::RulesSource => "rules_source",
            BackgroundWorker::RulesDatabase => "rules_database",
            BackgroundWorker::IdentityFile => "identity_file",
            BackgroundWorker::TokenKeys => "token_keys",
            BackgroundWorker::StoreHealth => "store_health",
            BackgroundWorker::KeySecret => "key_secret",
            BackgroundWorker::Upstream => "upstream",
            BackgroundWorker::UpstreamConnection => "upstream_connection",
            BackgroundWorker::DeferredDatabase => "deferred_database",
            BackgroundWorker::DeferredAdd => "deferred_add",
            BackgroundWorker::DeferredDispatch => "deferred_dispatch",
            BackgroundWorker::DeferredShare => "deferred_share",
            BackgroundWorker::DeferredReplay => "deferred_replay",
            BackgroundWorker::DeferredDelivery => "deferred_delivery",
            BackgroundWorker::Settlement => "settlement",
        }
    }
}
