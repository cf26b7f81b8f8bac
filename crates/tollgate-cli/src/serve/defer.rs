//! What is kept of requests over the limit, and how it is sent later.

use std::time::Duration;

use clap::Args;
use tollgate_server::config::DeferOptions;

use crate::quantity::{duration, number, patience, size, small};

/// What is kept of requests over the limit of rules with `then: defer`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeferArgs {
    /// Where clients of the gateway ask what became of a deferred request: /.tollgate/deferred/
    #[arg(long, env = "TOLLGATE_DEFER_PREFIX", value_name = "PATH")]
    defer_prefix: Option<String>,
    /// The longest body of a request that is deferred, in bytes: 1048576
    #[arg(long, env = "TOLLGATE_DEFER_BODY", value_name = "BYTES", value_parser = size)]
    defer_body: Option<usize>,
    /// How many requests are deferred at most: 10k
    #[arg(long, env = "TOLLGATE_DEFER_COUNT", value_name = "N", value_parser = size)]
    defer_count: Option<usize>,
    /// What deferred requests may weigh together, in bytes: 268435456
    #[arg(long, env = "TOLLGATE_DEFER_BYTES", value_name = "BYTES", value_parser = number)]
    defer_bytes: Option<u64>,
    /// How often a deferred request is sent before it is a dead letter: 10
    #[arg(long, env = "TOLLGATE_DEFER_ATTEMPTS", value_name = "N", value_parser = small)]
    defer_attempts: Option<u16>,
    /// How old a deferred request may be when it is sent again: 24h
    #[arg(long, env = "TOLLGATE_DEFER_GIVE_UP", value_name = "TIME", value_parser = duration)]
    defer_give_up: Option<Duration>,
    /// How long clients can ask about a deferred request that is done: 1h
    #[arg(long, env = "TOLLGATE_DEFER_KEEP", value_name = "TIME", value_parser = duration)]
    defer_keep: Option<Duration>,
    /// What the pauses between two attempts begin with: 1s
    #[arg(long, env = "TOLLGATE_DEFER_BACKOFF", value_name = "TIME", value_parser = patience)]
    defer_backoff: Option<Duration>,
}

impl DeferArgs {
    /// Writes what was given over what is usual.
    pub(super) fn apply(&self, options: &mut DeferOptions) {
        if let Some(prefix) = &self.defer_prefix {
            options.prefix.clone_from(prefix);
        }
        options.body = self.defer_body.unwrap_or(options.body);
        options.count = self.defer_count.unwrap_or(options.count);
        options.bytes = self.defer_bytes.unwrap_or(options.bytes);
        options.attempts = self.defer_attempts.map_or(options.attempts, u32::from).max(1);
        options.give_up = self.defer_give_up.unwrap_or(options.give_up);
        options.keep = self.defer_keep.unwrap_or(options.keep);
        options.backoff = self.defer_backoff.unwrap_or(options.backoff);
    }
}
