//! The timeouts of a connection: idle clients, slow commands and unused buffers.
//!
//! One timer serves all three. It is reset only if something is due earlier than it would fire, so a
//! busy connection does not touch it.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Sleep;

use crate::clock::monotonic_ms;
use crate::config::Bounds;

/// The size of buffers that a quiet connection retains, in bytes.
const RETAINED_BYTES: usize = 4 << 10;
/// The idle time after which a connection is quiet, in milliseconds.
pub(super) const QUIET_MS: u64 = 1_000;

/// The timer that closes idle and slow connections.
#[derive(Debug)]
pub(super) struct IdleTimeout {
    timer: Pin<Box<Sleep>>,
    /// The time at which the timer fires.
    due_ms: u64,
    /// The time at which the incomplete command began.
    command_start_ms: Option<u64>,
    timeout_ms: u64,
    command_ms: u64,
}

/// The result of checking the timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutVerdict {
    KeepOpen,
    Close,
}

impl IdleTimeout {
    pub(super) fn new(bounds: &Bounds) -> IdleTimeout {
        let millis = |duration: Duration| (duration.as_millis() as u64).max(1);
        let timer = Box::pin(tokio::time::sleep(bounds.idle_timeout));
        let (timeout_ms, command_ms) = (millis(bounds.idle_timeout), millis(bounds.header_timeout));
        let due_ms = monotonic_ms().saturating_add(timeout_ms);
        IdleTimeout { timer, due_ms, command_start_ms: None, timeout_ms, command_ms }
    }

    /// Waits until it is time to [check](IdleTimeout::check).
    pub(super) async fn due(&mut self) {
        self.timer.as_mut().await;
    }

    /// Records that bytes came and complete commands were run.
    ///
    /// `partial` says whether an incomplete command is left, `buffered` is the size of all buffers.
    #[inline]
    pub(super) fn record_read(&mut self, partial: bool, buffered: usize) {
        if !partial {
            self.command_start_ms = None;
        } else if self.command_start_ms.is_none() {
            let now = monotonic_ms();
            self.command_start_ms = Some(now);
            self.schedule(now.saturating_add(self.command_ms), now);
        }
        if buffered > RETAINED_BYTES {
            let now = monotonic_ms();
            self.schedule(now.saturating_add(QUIET_MS), now);
        }
    }

    /// Checks the timeouts of a connection that has been idle for `idle_ms`, and sets the timer.
    pub(super) fn check(&mut self, idle_ms: u64, buffered: usize) -> TimeoutVerdict {
        let now = monotonic_ms();
        let slow =
            self.command_start_ms.is_some_and(|start| now >= start.saturating_add(self.command_ms));
        if slow || idle_ms >= self.timeout_ms {
            return TimeoutVerdict::Close;
        }
        let idle_at = now.saturating_add(self.timeout_ms - idle_ms);
        let command_at = self.command_start_ms.map(|start| start.saturating_add(self.command_ms));
        let quiet_at = (buffered > RETAINED_BYTES && idle_ms < QUIET_MS).then_some(now + QUIET_MS);
        self.due_ms = u64::MAX;
        let earliest = [command_at, quiet_at].into_iter().flatten().fold(idle_at, u64::min);
        self.schedule(earliest, now);
        TimeoutVerdict::KeepOpen
    }

    /// Makes the timer fire at `at_ms`, unless it fires earlier anyway.
    fn schedule(&mut self, at_ms: u64, now: u64) {
        if at_ms < self.due_ms {
            self.due_ms = at_ms;
            let after = Duration::from_millis(at_ms.saturating_sub(now));
            self.timer.as_mut().reset(tokio::time::Instant::now() + after);
        }
    }
}
