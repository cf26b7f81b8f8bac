//! Whether anybody is still at the other end of a connection.

use std::task::{Context, Waker};

use h2::{Ping, PingPong};

/// Asks silent clients whether they are there.
pub(super) struct KeepAlive {
    pings: Option<PingPong>,
    waiting: bool,
}

impl KeepAlive {
    pub(super) fn new(pings: Option<PingPong>) -> KeepAlive {
        KeepAlive { pings, waiting: false }
    }

    /// Called from time to time. Whether the client answered what it was asked the last time; if
    /// it is silent, it is asked again.
    pub(super) fn is_alive(&mut self, is_silent: bool) -> bool {
        let Some(pings) = &mut self.pings else { return true };
        if self.waiting {
            // Nobody needs to be woken: the next call looks again.
            let answered = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
            if answered.is_pending() {
                return false;
            }
            self.waiting = false;
        }
        if is_silent {
            self.waiting = pings.send_ping(Ping::opaque()).is_ok();
        }
        true
    }
}
