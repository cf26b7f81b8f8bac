//! The deadline of a response head, while the request body may still be on its way.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::super::options::GatewayOptions;
use super::super::upload::{UploadProgress, UploadStage};
use super::UpstreamError;
use super::lazy_timer::LazyTimer;

/// The deadline of a response head.
pub(super) struct ResponseDeadline<'o> {
    options: &'o GatewayOptions,
    progress: Option<Arc<UploadProgress>>,
    /// The time of the next check; set at the first poll.
    due: Option<Instant>,
}

impl<'o> ResponseDeadline<'o> {
    pub(super) fn new(
        options: &'o GatewayOptions,
        progress: Option<Arc<UploadProgress>>,
    ) -> ResponseDeadline<'o> {
        ResponseDeadline { options, progress, due: None }
    }

    /// Returns the error once the deadline is over.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        timer: &mut LazyTimer,
    ) -> Poll<UpstreamError> {
        let mut due = *self.due.get_or_insert_with(|| {
            let first = match self.progress {
                None => self.options.answer_timeout,
                Some(_) => self.options.answer_timeout.min(self.options.upload_timeout),
            };
            Instant::now() + first
        });
        loop {
            if timer.poll(context, due).is_pending() {
                return Poll::Pending;
            }
            let Some(progress) = &self.progress else { return Poll::Ready(UpstreamError::Late) };
            let (error, left) = match progress.stage() {
                UploadStage::WaitsForClient => {
                    let options = self.options;
                    let left = progress.patience(options.upload_timeout, options.upload_min_rate);
                    (UpstreamError::SlowClient, left)
                }
                _ => {
                    let still = Duration::from_millis(progress.still_ms());
                    (UpstreamError::Late, self.options.answer_timeout.saturating_sub(still))
                }
            };
            if left.is_zero() {
                return Poll::Ready(error);
            }
            due = Instant::now() + left;
            self.due = Some(due);
        }
    }

    /// Returns the error of a failed request: a client that leaves halfway looks like an upstream
    /// that fails.
    pub(super) fn blame(&self, error: hyper::Error) -> UpstreamError {
        match self.progress.as_ref().map(|progress| progress.stage()) {
            Some(UploadStage::Broken) => UpstreamError::BadClient,
            _ => UpstreamError::Broken(error),
        }
    }
}
