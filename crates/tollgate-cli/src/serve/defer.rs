//! The settings of deferred requests.

use std::time::Duration;

use clap::Args;
use tollgate_server::config::DeferOptions;

use crate::quantity::{duration, number, number_u16, number_usize, positive_duration, share};

/// The settings of deferred requests, for rules with `then: defer`.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Deferred requests")]
pub(crate) struct DeferArgs {
    /// Path at which clients get the state of a deferred request
    #[arg(
        long,
        env = "TOLLGATE_DEFER_PREFIX",
        value_name = "PATH",
        default_value = "/.tollgate/deferred/",
        hide_short_help = true
    )]
    defer_prefix: String,
    /// Maximum body size of a deferred request in bytes
    #[arg(
        long,
        env = "TOLLGATE_DEFER_BODY",
        value_name = "BYTES",
        value_parser = number_usize,
        default_value = "1MiB",
        hide_short_help = true
    )]
    defer_body: usize,
    /// Maximum number of deferred requests
    #[arg(
        long,
        env = "TOLLGATE_DEFER_COUNT",
        value_name = "N",
        value_parser = number_usize,
        default_value = "10k",
        hide_short_help = true
    )]
    defer_count: usize,
    /// Maximum total size of deferred requests in bytes
    #[arg(
        long,
        env = "TOLLGATE_DEFER_BYTES",
        value_name = "BYTES",
        value_parser = number,
        default_value = "256MiB",
        hide_short_help = true
    )]
    defer_bytes: u64,
    /// Maximum share of one rule and key, in number and size, of what other keys leave, from 0 to 1
    #[arg(
        long,
        env = "TOLLGATE_DEFER_SHARE",
        value_name = "SHARE",
        value_parser = share,
        default_value = "0.25",
        hide_short_help = true
    )]
    defer_share: f64,
    /// Number of attempts before a deferred request is a dead letter
    #[arg(
        long,
        env = "TOLLGATE_DEFER_ATTEMPTS",
        value_name = "N",
        value_parser = number_u16,
        default_value = "10",
        hide_short_help = true
    )]
    defer_attempts: u16,
    /// Maximum age of a deferred request that is sent again
    #[arg(
        long,
        env = "TOLLGATE_DEFER_GIVE_UP",
        value_name = "TIME",
        value_parser = duration,
        default_value = "24h",
        hide_short_help = true
    )]
    defer_give_up: Duration,
    /// Retention of the state of a finished deferred request
    #[arg(
        long,
        env = "TOLLGATE_DEFER_KEEP",
        value_name = "TIME",
        value_parser = duration,
        default_value = "1h",
        hide_short_help = true
    )]
    defer_keep: Duration,
    /// Retention of a dead letter
    #[arg(
        long,
        env = "TOLLGATE_DEFER_KEEP_DEAD",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "168h",
        hide_short_help = true
    )]
    defer_keep_dead: Duration,
    /// First pause between two attempts
    #[arg(
        long,
        env = "TOLLGATE_DEFER_BACKOFF",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "1s",
        hide_short_help = true
    )]
    defer_backoff: Duration,
}

impl DeferArgs {
    /// Sets the options of the deferred queue.
    pub(super) fn apply(&self, options: &mut DeferOptions) {
        options.prefix.clone_from(&self.defer_prefix);
        options.body = self.defer_body;
        options.count = self.defer_count;
        options.bytes = self.defer_bytes;
        options.share = self.defer_share;
        options.attempts = u32::from(self.defer_attempts);
        options.give_up = self.defer_give_up;
        options.keep = self.defer_keep;
        options.keep_dead = self.defer_keep_dead;
        options.backoff = self.defer_backoff;
    }
}
