//! The HTTP/2 connection that requests to an upstream share, and the attempt to open it.
//!
//! Requests that need the connection at the same time wait for one attempt, and get its outcome
//! together. Were each to try in turn, the last of twelve would wait for twelve connect timeouts.

use std::io;
use std::sync::Arc;

use hyper::client::conn::http2;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::super::upload::Upload;
use crate::background::{BackgroundWorker, guarded};

/// A sender of requests on an HTTP/2 connection.
pub(super) type Http2Sender = http2::SendRequest<Upload>;

/// The outcome of an attempt; `None` while it is under way.
type AttemptOutcome = Option<io::Result<Http2Sender>>;

/// The shared connection to an upstream. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedConnection(Arc<Mutex<ConnectionState>>);

#[derive(Debug, Default)]
struct ConnectionState {
    sender: Option<Http2Sender>,
    /// The attempt under way.
    attempt: Option<watch::Receiver<AttemptOutcome>>,
}

impl SharedConnection {
    /// Returns the connection, if it is open.
    pub(super) fn sender(&self) -> Option<Http2Sender> {
        self.0.lock().open_sender()
    }

    /// Replaces the connection.
    pub(super) fn set(&self, sender: Http2Sender) {
        self.0.lock().sender = Some(sender);
    }

    /// Returns the connection; opens it with `open`, or joins the attempt under way.
    ///
    /// The attempt goes on if a request that waits for it is cancelled, because others wait too.
    pub(super) async fn open<F>(&self, open: impl FnOnce() -> F) -> io::Result<Http2Sender>
    where
        F: Future<Output = io::Result<Http2Sender>> + Send + 'static,
    {
        let mut attempt = {
            let mut state = self.0.lock();
            if let Some(sender) = state.open_sender() {
                return Ok(sender);
            }
            // An attempt whose task has ended by a panic is not joined.
            match state.attempt.clone().filter(|attempt| attempt.has_changed().is_ok()) {
                Some(attempt) => attempt,
                None => {
                    let (report, attempt) = watch::channel(None);
                    state.attempt = Some(attempt.clone());
                    let attempted = self.clone().attempt(open(), report);
                    tokio::spawn(guarded(BackgroundWorker::UpstreamConnection, attempted));
                    attempt
                }
            }
        };
        let outcome = attempt.wait_for(Option::is_some).await;
        match outcome.as_deref() {
            Ok(Some(Ok(sender))) => Ok(sender.clone()),
            Ok(Some(Err(error))) => Err(copy_of(error)),
            Ok(None) | Err(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    async fn attempt(
        self,
        opening: impl Future<Output = io::Result<Http2Sender>>,
        report: watch::Sender<AttemptOutcome>,
    ) {
        let outcome = opening.await;
        {
            let mut state = self.0.lock();
            state.attempt = None;
            if let Ok(sender) = &outcome {
                state.sender = Some(sender.clone());
            }
        }
        report.send_replace(Some(outcome));
    }
}

impl ConnectionState {
    fn open_sender(&mut self) -> Option<Http2Sender> {
        if self.sender.as_ref().is_some_and(Http2Sender::is_closed) {
            self.sender = None;
        }
        self.sender.clone()
    }
}

/// Returns a copy of an error for one of the requests that get it.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
