//! The response future of a limited service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use crate::body::LimitedBody;
use crate::lifecycle::RequestEnd;
use crate::request_limiter::AdmittedRequest;

pin_project! {
    /// The future of the response of a [`RateLimit`](crate::RateLimit).
    pub struct ResponseFuture<F> {
        #[pin]
        state: FutureState<F>,
    }
}

pin_project! {
    #[project = FutureStateProject]
    enum FutureState<F> {
        Passed { #[pin] future: F, admitted: Option<AdmittedRequest> },
        Refused { response: Option<Box<Response<Bytes>>> },
        Pending { pending: PendingCall<F> },
    }
}

type PendingCall<F> = Pin<Box<dyn Future<Output = DecidedCall<F>> + Send>>;

/// The outcome of a request that had to wait.
pub(crate) enum DecidedCall<F> {
    Passed(F, AdmittedRequest),
    Refused(Box<Response<Bytes>>),
}

impl<F> ResponseFuture<F> {
    pub(crate) fn passed(future: F, admitted: AdmittedRequest) -> ResponseFuture<F> {
        ResponseFuture { state: FutureState::Passed { future, admitted: Some(admitted) } }
    }

    pub(crate) fn refused(response: Box<Response<Bytes>>) -> ResponseFuture<F> {
        ResponseFuture { state: FutureState::Refused { response: Some(response) } }
    }

    pub(crate) fn pending(pending: PendingCall<F>) -> ResponseFuture<F> {
        ResponseFuture { state: FutureState::Pending { pending } }
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<LimitedBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                FutureStateProject::Passed { future, admitted } => {
                    let answer = ready!(future.poll(context));
                    let AdmittedRequest { headers, mut lifecycle } =
                        admitted.take().expect("a future is not polled after its end");
                    return Poll::Ready(match answer {
                        Ok(mut response) => {
                            lifecycle.responded(response.status(), response.headers());
                            headers.add(response.headers_mut());
                            Ok(response.map(|body| LimitedBody::passed(body, lifecycle)))
                        }
                        Err(error) => {
                            lifecycle.end(RequestEnd::Failed);
                            Err(error)
                        }
                    });
                }
                FutureStateProject::Refused { response } => {
                    let response = response.take().expect("a future is not polled after its end");
                    return Poll::Ready(Ok(response.map(LimitedBody::refused)));
                }
                FutureStateProject::Pending { pending } => {
                    let next = match ready!(pending.as_mut().poll(context)) {
                        DecidedCall::Passed(future, admitted) => {
                            FutureState::Passed { future, admitted: Some(admitted) }
                        }
                        DecidedCall::Refused(response) => {
                            FutureState::Refused { response: Some(response) }
                        }
                    };
                    state.set(next);
                }
            }
        }
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
