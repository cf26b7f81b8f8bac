//! Draining: the server first reports that it is not ready, then closes its connections.

use tokio::sync::watch;

/// A stage of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DrainPhase {
    Serving,
    /// The server reports that it is not ready, and still answers requests.
    Leaving,
    /// The server accepts no connection and finishes the requests under way.
    Closing,
}

/// The side of the shutdown that advances it.
#[derive(Debug)]
pub(crate) struct Drainer(watch::Sender<DrainPhase>);

/// The side of the shutdown that observes it.
#[derive(Clone, Debug)]
pub(crate) struct Drain(watch::Receiver<DrainPhase>);

impl Drainer {
    pub(crate) fn new() -> (Drainer, Drain) {
        let (sender, receiver) = watch::channel(DrainPhase::Serving);
        (Drainer(sender), Drain(receiver))
    }

    /// Makes the server report that it is not ready.
    pub(crate) fn leave(&self) {
        self.0.send_if_modified(|phase| {
            *phase < DrainPhase::Leaving && {
                *phase = DrainPhase::Leaving;
                true
            }
        });
    }

    /// Makes all doors stop accepting and close their connections.
    pub(crate) fn close(&self) {
        self.0.send_replace(DrainPhase::Closing);
    }
}

impl Drain {
    /// Returns whether load balancers should send no new clients.
    pub(crate) fn is_leaving(&self) -> bool {
        *self.0.borrow() >= DrainPhase::Leaving
    }

    /// Returns whether connections must close once the requests under way are answered.
    pub(crate) fn is_closing(&self) -> bool {
        *self.0.borrow() >= DrainPhase::Closing
    }

    /// Waits until load balancers should send no new clients.
    pub(crate) async fn leaving(&self) {
        let mut phase = self.0.clone();
        // A sender that was dropped counts as leaving, so an error is ignored.
        let _ = phase.wait_for(|phase| *phase >= DrainPhase::Leaving).await;
    }

    /// Waits until connections must close.
    pub(crate) async fn closing(&self) {
        let mut phase = self.0.clone();
        // A sender that was dropped counts as closing, so an error is ignored.
        let _ = phase.wait_for(|phase| *phase >= DrainPhase::Closing).await;
    }
}
