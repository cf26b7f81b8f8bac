//! The response body of a limited service.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::lifecycle::{ObservedBody, RequestLifecycle};

pin_project! {
    /// A response body: of the inner service, or of a refusal.
    #[derive(Debug)]
    pub struct LimitedBody<B> {
        #[pin]
        inner: BodySource<B>,
    }
}

pin_project! {
    #[project = BodySourceProject]
    #[derive(Debug)]
    enum BodySource<B> {
        Passed { #[pin] body: ObservedBody<B> },
        Refused { body: Bytes },
    }
}

impl<B: Body> LimitedBody<B> {
    pub(crate) fn passed(body: B, lifecycle: RequestLifecycle) -> LimitedBody<B> {
        LimitedBody { inner: BodySource::Passed { body: ObservedBody::new(body, lifecycle) } }
    }
}

impl<B> LimitedBody<B> {
    pub(crate) fn refused(body: Bytes) -> LimitedBody<B> {
        LimitedBody { inner: BodySource::Refused { body } }
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
            BodySourceProject::Passed { body } => body.poll_frame(context),
            BodySourceProject::Refused { body } if body.is_empty() => Poll::Ready(None),
            BodySourceProject::Refused { body } => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(body)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            BodySource::Passed { body } => body.is_end_stream(),
            BodySource::Refused { body } => body.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            BodySource::Passed { body } => body.size_hint(),
            BodySource::Refused { body } => SizeHint::with_exact(body.len() as u64),
        }
    }
}
