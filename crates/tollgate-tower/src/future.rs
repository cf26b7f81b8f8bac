//! The answer that is yet to come of a service behind limits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use crate::body::LimitedBody;
use crate::gate::Admitted;
use crate::passage::End;

pin_project! {
    /// The answer that is yet to come of a [`RateLimit`](crate::RateLimit).
    pub struct ResponseFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProject]
    enum State<F> {
        Passed { #[pin] future: F, admitted: Option<Admitted> },
        Refused { response: Option<Box<Response<Bytes>>> },
        Held { held: Held<F> },
    }
}

type Held<F> = Pin<Box<dyn Future<Output = Cleared<F>> + Send>>;

/// What became of a request that was held back.
pub(crate) enum Cleared<F> {
    Passed(F, Admitted),
    Refused(Box<Response<Bytes>>),
}

impl<F> ResponseFuture<F> {
    pub(crate) fn passed(future: F, admitted: Admitted) -> ResponseFuture<F> {
        ResponseFuture { state: State::Passed { future, admitted: Some(admitted) } }
    }

    pub(crate) fn refused(response: Box<Response<Bytes>>) -> ResponseFuture<F> {
        ResponseFuture { state: State::Refused { response: Some(response) } }
    }

    pub(crate) fn held(held: Held<F>) -> ResponseFuture<F> {
        ResponseFuture { state: State::Held { held } }
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
                StateProject::Passed { future, admitted } => {
                    let answer = ready!(future.poll(context));
                    let Admitted { told, mut passage } =
                        admitted.take().expect("a future is not polled after its end");
                    return Poll::Ready(match answer {
                        Ok(mut response) => {
                            passage.answered(response.status(), response.headers());
                            told.add(response.headers_mut());
                            Ok(response.map(|body| LimitedBody::passed(body, passage)))
                        }
                        Err(error) => {
                            passage.end(End::Broken);
                            Err(error)
                        }
                    });
                }
                StateProject::Refused { response } => {
                    let response = response.take().expect("a future is not polled after its end");
                    return Poll::Ready(Ok(response.map(LimitedBody::refused)));
                }
                StateProject::Held { held } => {
                    let next = match ready!(held.as_mut().poll(context)) {
                        Cleared::Passed(future, admitted) => {
                            State::Passed { future, admitted: Some(admitted) }
                        }
                        Cleared::Refused(response) => State::Refused { response: Some(response) },
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
