//! What the system tells the process: to stop, or to read its settings again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Stop,
    Reload,
}

/// Listens from when it is made, not only once it is awaited.
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

    /// What comes next.
    pub(crate) async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hang_up.recv() => Told::Reload,
        }
    }

    /// Done when it is to stop.
    pub(crate) async fn stop(&mut self) {
        while self.next().await != Told::Stop {}
    }
}
