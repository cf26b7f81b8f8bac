//! Watching over a connection: nobody is silent for too long, takes too long over one command, or
//! keeps memory it does not use.
//!
//! One timer does for all of it. It is set anew only if something is due earlier than it was going
//! to ring: a busy connection does not touch it.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Sleep;

use crate::clock::monotonic_ms;
use crate::config::Bounds;

/// Buffers larger than this are given back in the next quiet moment.
const KEPT: usize = 4 << 10;
/// What a quiet moment is.
pub(super) const QUIET_MS: u64 = 1_000;

/// Watches over a connection.
#[derive(Debug)]
pub(super) struct Vigil {
    timer: Pin<Box<Sleep>>,
    /// When the timer rings.
    due_ms: u64,
    /// When the command that is incomplete began to come.
    begun_ms: Option<u64>,
    idle_ms: u64,
    command_ms: u64,
}

/// Whether a connection may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    Leave,
}

impl Vigil {
    pub(super) fn new(bounds: &Bounds) -> Vigil {
        let millis = |duration: Duration| (duration.as_millis() as u64).max(1);
        let timer = Box::pin(tokio::time::sleep(bounds.idle_timeout));
        let (idle_ms, command_ms) = (millis(bounds.idle_timeout), millis(bounds.header_timeout));
        let due_ms = monotonic_ms().saturating_add(idle_ms);
        Vigil { timer, due_ms, begun_ms: None, idle_ms, command_ms }
    }

    /// Done when it is time to [look](Vigil::look).
    pub(super) async fn due(&mut self) {
        self.timer.as_mut().await;
    }

    /// Something came and was answered, perhaps but for the beginning of a command. The
    /// connection's buffers hold so many bytes.
    #[inline]
    pub(super) fn heard(&mut self, partial: bool, held: usize) {
        if !partial {
            self.begun_ms = None;
        } else if self.begun_ms.is_none() {
            let now = monotonic_ms();
            self.begun_ms = Some(now);
            self.ring(now.saturating_add(self.command_ms), now);
        }
        if held > KEPT {
            let now = monotonic_ms();
            self.ring(now.saturating_add(QUIET_MS), now);
        }
    }

    /// Whether it may go on after so long a silence.
    pub(super) fn look(&mut self, silent_ms: u64, held: usize) -> Verdict {
        let now = monotonic_ms();
        let slow = self.begun_ms.is_some_and(|begun| now >= begun.saturating_add(self.command_ms));
        if slow || silent_ms >= self.idle_ms {
            return Verdict::Leave;
        }
        let idle_at = now.saturating_add(self.idle_ms - silent_ms);
        let command_at = self.begun_ms.map(|begun| begun.saturating_add(self.command_ms));
        let quiet_at = (held > KEPT && silent_ms < QUIET_MS).then_some(now + QUIET_MS);
        self.due_ms = u64::MAX;
        let earliest = [command_at, quiet_at].into_iter().flatten().fold(idle_at, u64::min);
        self.ring(earliest, now);
        Verdict::Stay
    }

    /// Rings at this moment, unless it does earlier anyway.
    fn ring(&mut self, at_ms: u64, now: u64) {
        if at_ms < self.due_ms {
            self.due_ms = at_ms;
            let after = Duration::from_millis(at_ms.saturating_sub(now));
            self.timer.as_mut().reset(tokio::time::Instant::now() + after);
        }
    }
}
