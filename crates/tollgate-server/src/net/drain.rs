//! Going down in good order: first nobody new is sent here, then everybody is let go.

use tokio::sync::watch;

/// How far the server is on its way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// It says that it is not ready, and answers all the same.
    Leaving,
    /// It accepts nobody and finishes what is under way.
    Closing,
}

/// Tells everybody how far it is.
#[derive(Debug)]
pub(crate) struct Drainer(watch::Sender<Phase>);

/// Is told how far it is.
#[derive(Clone, Debug)]
pub(crate) struct Drain(watch::Receiver<Phase>);

impl Drainer {
    pub(crate) fn new() -> (Drainer, Drain) {
        let (sender, receiver) = watch::channel(Phase::Serving);
        (Drainer(sender), Drain(receiver))
    }

    pub(crate) fn leave(&self) {
        self.0.send_if_modified(|phase| {
            *phase < Phase::Leaving && {
                *phase = Phase::Leaving;
                true
            }
        });
    }

    pub(crate) fn close(&self) {
        self.0.send_replace(Phase::Closing);
    }
}

impl Drain {
    /// Whether nobody new should be sent here.
    pub(crate) fn is_leaving(&self) -> bool {
        *self.0.borrow() >= Phase::Leaving
    }

    /// Whether connections are to end once what is under way is answered.
    pub(crate) fn is_closing(&self) -> bool {
        *self.0.borrow() >= Phase::Closing
    }

    /// Done once nobody new should be sent here.
    pub(crate) async fn leaving(&self) {
        let mut phase = self.0.clone();
        // A server that is gone without a word is leaving too.
        let _ = phase.wait_for(|phase| *phase >= Phase::Leaving).await;
    }

    /// Done once connections are to end.
    pub(crate) async fn closing(&self) {
        let mut phase = self.0.clone();
        // A server that is gone without a word is closing too.
        let _ = phase.wait_for(|phase| *phase >= Phase::Closing).await;
    }
}
