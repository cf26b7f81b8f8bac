//! The settings of deferred requests.

use std::time::Duration;

use clap::Args;
use tollgate_server::config::DeferOptions;

use crate::quantity::{duration, number, number_u16, number_usize, positive_duration, share};

/// The settings of deferred requests, for rules with `then: defer`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeferArgs {
    /// Path at which clients get the state of a deferred request [default: /.tollgate/deferred/]
    #[arg(long, env = "TOLLGATE_DEFER_PREFIX", value_name = "PATH")]
    defer_prefix: Option<String>,
    /// Maximum body size of a deferred request in bytes [default: 1048576]
    #[arg(long, env = "TOLLGATE_DEFER_BODY", value_name = "BYTES", value_parser = number_usize)]
    defer_body: Option<usize>,
    /// Maximum number of deferred requests [default: 10k]
    #[arg(long, env = "TOLLGATE_DEFER_COUNT", value_name = "N", value_parser = number_usize)]
    defer_count: Option<usize>,
    /// Maximum total size of deferred requests in bytes [default: 268435456]
    #[arg(long, env = "TOLLGATE_DEFER_BYTES", value_name = "BYTES", value_parser = number)]
    defer_bytes: Option<u64>,
    /// Maximum share of one rule and key, in number and size, of what other keys leave, from 0 to 1
    /// [default: 0.25]
    #[arg(long, env = "TOLLGATE_DEFER_SHARE", value_name = "SHARE", value_parser = share)]
    defer_share: Option<f64>,
    /// Number of attempts before a deferred request is a dead letter [default: 10]
    #[arg(long, env = "TOLLGATE_DEFER_ATTEMPTS", value_name = "N", value_parser = number_u16)]
    defer_attempts: Option<u16>,
    /// Maximum age of a deferred request that is sent again [default: 24h]
    #[arg(long, env = "TOLLGATE_DEFER_GIVE_UP", value_name = "TIME", value_parser = duration)]
    defer_give_up: Option<Duration>,
    /// Retention of the state of a finished deferred request [default: 1h]
    #[arg(long, env = "TOLLGATE_DEFER_KEEP", value_name = "TIME", value_parser = duration)]
    defer_keep: Option<Duration>,
    /// Retention of a dead letter [default: 168h]
    #[arg(long, env = "TOLLGATE_DEFER_KEEP_DEAD", value_name = "TIME", value_parser = positive_duration)]
    defer_keep_dead: Option<Duration>,
    /// First pause between two attempts [default: 1s]
    #[arg(long, env = "TOLLGATE_DEFER_BACKOFF", value_name = "TIME", value_parser = positive_duration)]
    defer_backoff: Option<Duration>,
}

impl DeferArgs {
    /// Overwrites the defaults with the settings that are given.
    pub(super) fn apply(&self, options: &mut DeferOptions) {
        if let Some(prefix) = &self.defer_prefix {
            options.prefix.clone_from(prefix);
        }
        options.body = self.defer_body.unwrap_or(options.body);
        options.count = self.defer_count.unwrap_or(options.count);
        options.bytes = self.defer_bytes.unwrap_or(options.bytes);
        options.share = self.defer_share.unwrap_or(options.share);
        options.attempts = self.defer_attempts.map_or(options.attempts, u32::from).max(1);
        options.give_up = self.defer_give_up.unwrap_or(options.give_up);
        options.keep = self.defer_keep.unwrap_or(options.keep);
        options.keep_dead = self.defer_keep_dead.unwrap_or(options.keep_dead);
        options.backoff = self.defer_backoff.unwrap_or(options.backoff);
    }
}
