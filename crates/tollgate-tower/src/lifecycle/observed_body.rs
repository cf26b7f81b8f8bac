//! Response bodies that are observed on their way to the client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{RequestEnd, RequestLifecycle};

pin_project! {
    /// A response body that reports its progress to a lifecycle. If it is dropped before its end,
    /// the client has left.
    #[derive(Debug)]
    pub struct ObservedBody<B> {
        #[pin]
        body: B,
        lifecycle: RequestLifecycle,
    }
}

impl<B: Body> ObservedBody<B> {
    /// Creates an observed body.
    pub fn new(body: B, lifecycle: RequestLifecycle) -> ObservedBody<B> {
        let mut observed = ObservedBody { body, lifecycle };
        if observed.lifecycle.is_observed() && observed.body.is_end_stream() {
            // The server may never poll an empty body.
            std::mem::take(&mut observed.lifecycle).end(RequestEnd::Complete);
        }
        observed
    }
}

impl<B: Body<Data = Bytes>> Body for ObservedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        if !this.lifecycle.is_observed() {
            return Poll::Ready(frame);
        }
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    this.lifecycle.data(data);
                }
                // A server that sends a body of known length stops polling after the last frame.
                if this.body.is_end_stream() {
                    std::mem::take(this.lifecycle).end(RequestEnd::Complete);
                }
            }
            Some(Err(_)) => std::mem::take(this.lifecycle).end(RequestEnd::Failed),
            None => std::mem::take(this.lifecycle).end(RequestEnd::Complete),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
