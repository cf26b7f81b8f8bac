//! The body of an answer that is watched on its way to the client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{End, Passage};

pin_project! {
    /// The body of an answer that is watched on its way to the client. Dropped before its end,
    /// the client has left.
    #[derive(Debug)]
    pub struct Followed<B> {
        #[pin]
        body: B,
        passage: Passage,
    }
}

impl<B: Body> Followed<B> {
    /// A body, and who is told of it.
    pub fn new(body: B, passage: Passage) -> Followed<B> {
        let mut followed = Followed { body, passage };
        if followed.passage.is_followed() && followed.body.is_end_stream() {
            // Nobody may ever ask for a frame of it.
            std::mem::take(&mut followed.passage).end(End::Whole);
        }
        followed
    }
}

impl<B: Body<Data = Bytes>> Body for Followed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        if !this.passage.is_followed() {
            return Poll::Ready(frame);
        }
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    this.passage.data(data);
                }
                // Who sends a body of known length stops asking after the last frame.
                if this.body.is_end_stream() {
                    std::mem::take(this.passage).end(End::Whole);
                }
            }
            Some(Err(_)) => std::mem::take(this.passage).end(End::Broken),
            None => std::mem::take(this.passage).end(End::Whole),
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
