//! How long the head of an answer may take, while a body may still be on its way.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::super::options::GatewayOptions;
use super::super::upload::{Progress, Stage};
use super::UpstreamError;
use super::alarm::Alarm;

/// How long the head of an answer may take.
pub(super) struct Patience<'o> {
    options: &'o GatewayOptions,
    progress: Option<Arc<Progress>>,
    /// Set at the first look.
    due: Option<Instant>,
}

impl<'o> Patience<'o> {
    pub(super) fn new(
        options: &'o GatewayOptions,
        progress: Option<Arc<Progress>>,
    ) -> Patience<'o> {
        Patience { options, progress, due: None }
    }

    /// Ready with what to say once there is no more patience.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        alarm: &mut Alarm,
    ) -> Poll<UpstreamError> {
        let mut due = *self.due.get_or_insert_with(|| {
            let first = match self.progress {
                None => self.options.answer_timeout,
                Some(_) => self.options.answer_timeout.min(self.options.upload_timeout),
            };
            Instant::now() + first
        });
        loop {
            if alarm.poll(context, due).is_pending() {
                return Poll::Pending;
            }
            let Some(progress) = &self.progress else { return Poll::Ready(UpstreamError::Late) };
            let (error, most) = match progress.stage() {
                Stage::WaitsForClient => (UpstreamError::SlowClient, self.options.upload_timeout),
                _ => (UpstreamError::Late, self.options.answer_timeout),
            };
            let left = most.saturating_sub(Duration::from_millis(progress.still_ms()));
            if left.is_zero() {
                return Poll::Ready(error);
            }
            due = Instant::now() + left;
            self.due = Some(due);
        }
    }

    /// What went wrong: a client that leaves halfway looks like an upstream that fails.
    pub(super) fn blame(&self, error: hyper::Error) -> UpstreamError {
        match self.progress.as_ref().map(|progress| progress.stage()) {
            Some(Stage::Broken) => UpstreamError::BadClient,
            _ => UpstreamError::Broken(error),
        }
    }
}
