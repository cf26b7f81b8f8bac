//! The body of an upstream's answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

use super::super::upload::{Progress, Stage};
use super::Load;
use super::alarm::Alarm;
use super::lane::Lane;

/// Why the body of an answer ended too early.
#[derive(Debug, thiserror::Error)]
pub(in crate::doors::gateway) enum BodyError {
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    #[error("the upstream paused for too long")]
    Paused,
}

/// The body of an upstream's answer. At its end the lane it came on is free for others; dropped
/// before, the lane is closed, and the upstream notices.
#[derive(Debug)]
pub(in crate::doors::gateway) struct UpstreamBody {
    body: Incoming,
    /// What it comes on, if nobody else uses that.
    lane: Option<Lane>,
    /// For bodies that have no lane of their own.
    alarm: Alarm,
    progress: Option<Arc<Progress>>,
    load: Load,
    /// How long a pause may be, and when the one that is on is too long.
    pause: Duration,
    due: Option<Instant>,
}

impl UpstreamBody {
    pub(in crate::doors::gateway) fn new(
        body: Incoming,
        lane: Option<Lane>,
        progress: Option<Arc<Progress>>,
        load: Load,
        pause: Duration,
    ) -> UpstreamBody {
        let alarm = Alarm::default();
        let mut body = UpstreamBody { body, lane, alarm, progress, load, pause, due: None };
        body.leave_at_end();
        body
    }

    fn leave_at_end(&mut self) {
        if self.body.is_end_stream() {
            self.leave();
        }
    }

    /// The lane is free for others, unless the request is still being sent on it.
    fn leave(&mut self) {
        let done = self.progress.as_ref().is_none_or(|progress| progress.stage() == Stage::Done);
        if let Some(lane) = self.lane.take().filter(|_| done) {
            self.load.give_back(lane);
        }
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(lane) = &mut self.lane
            && !lane.drive(context)
        {
            self.lane = None;
        }
    }

    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = *self.due.get_or_insert_with(|| Instant::now() + self.pause);
        match &mut self.lane {
            Some(lane) => lane.alarm.poll(context, due),
            None => self.alarm.poll(context, due),
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let mut frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_pending() && this.lane.is_some() {
            this.drive(context);
            frame = Pin::new(&mut this.body).poll_frame(context);
        }
        match frame {
            Poll::Pending => match this.poll_pause(context) {
                Poll::Ready(()) => {
                    this.lane = None;
                    Poll::Ready(Some(Err(BodyError::Paused)))
                }
                Poll::Pending => Poll::Pending,
            },
            Poll::Ready(frame) => {
                this.due = None;
                match &frame {
                    None => this.leave(),
                    Some(Ok(_)) => this.leave_at_end(),
                    Some(Err(_)) => this.lane = None,
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
