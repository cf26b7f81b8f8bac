//! The body of an answer that went through the layer.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::passage::{Followed, Passage};

pin_project! {
    /// The body of an answer: the inner service's, or why a request was refused.
    #[derive(Debug)]
    pub struct LimitedBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[project = InnerProject]
    #[derive(Debug)]
    enum Inner<B> {
        Passed { #[pin] body: Followed<B> },
        Refused { body: Bytes },
    }
}

impl<B: Body> LimitedBody<B> {
    pub(crate) fn passed(body: B, passage: Passage) -> LimitedBody<B> {
        LimitedBody { inner: Inner::Passed { body: Followed::new(body, passage) } }
    }
}

impl<B> LimitedBody<B> {
    pub(crate) fn refused(body: Bytes) -> LimitedBody<B> {
        LimitedBody { inner: Inner::Refused { body } }
    }
}

impl<B: Body<Data = Bytes>> Body for LimitedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().inner.project() {
            InnerProject::Passed { body } => body.poll_frame(context),
            InnerProject::Refused { body } if body.is_empty() => Poll::Ready(None),
            InnerProject::Refused { body } => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(body)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Passed { body } => body.is_end_stream(),
            Inner::Refused { body } => body.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Passed { body } => body.size_hint(),
            Inner::Refused { body } => SizeHint::with_exact(body.len() as u64),
        }
    }
}
