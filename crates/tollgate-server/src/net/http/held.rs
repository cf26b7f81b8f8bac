//! A body that keeps its connection busy until it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::wire::Busy;

pin_project! {
    /// A body that keeps its connection busy until it is sent: who listens to a stream is not idle.
    #[derive(Debug)]
    pub(super) struct Held<B> {
        #[pin]
        body: B,
        busy: Busy,
    }
}

impl<B> Held<B> {
    pub(super) fn new(body: B, busy: Busy) -> Held<B> {
        Held { body, busy }
    }
}

impl<B: Body> Body for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
