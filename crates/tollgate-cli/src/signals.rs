//! Signals of the system: stop, or reload the settings.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The action that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
    Stop,
    Reload,
}

/// A listener for signals. It listens from its creation on, not only while it is awaited.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hang_up.recv() => SignalAction::Reload,
        }
    }

    /// Waits for a signal to stop.
    pub(crate) async fn stop(&mut self) {
        while self.next().await != SignalAction::Stop {}
    }
}
