//! Reading the body of a request: as one piece without a copy where it came as one, never more
//! than allowed, never for longer than allowed.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};

use crate::rules_service::problem::Problem;

/// Reads a body of at most `most` bytes.
pub(super) async fn read(
    mut body: Incoming,
    most: usize,
    patience: Duration,
) -> Result<Bytes, Problem> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > most as u64 {
        return Err(too_large(most));
    }
    let first = std::future::poll_fn(|context| {
        // Looks once: most bodies come with their head.
        std::task::Poll::Ready(match std::pin::Pin::new(&mut body).poll_frame(context) {
            std::task::Poll::Ready(frame) => frame,
            std::task::Poll::Pending => Some(Ok(hyper::body::Frame::data(Bytes::new()))),
        })
    })
    .await;
    let first = match first {
        None => return Ok(Bytes::new()),
        Some(frame) => frame.map_err(|_| broken())?.into_data().unwrap_or_default(),
    };
    if first.len() > most {
        return Err(too_large(most));
    }
    if body.is_end_stream() {
        return Ok(first);
    }
    let rest = tokio::time::timeout(patience, read_rest(first, body, most)).await;
    rest.unwrap_or_else(|_| {
        let detail = "the body did not come in time";
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
    })
}

async fn read_rest(first: Bytes, mut body: Incoming, most: usize) -> Result<Bytes, Problem> {
    let mut all = BytesMut::from(&first[..]);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| broken())?.into_data() else { continue };
        if all.len() + data.len() > most {
            return Err(too_large(most));
        }
        all.extend_from_slice(&data);
    }
    Ok(all.freeze())
}

fn too_large(most: usize) -> Problem {
    let detail = format!("the body has more than {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
}

fn broken() -> Problem {
    Problem::bad_request("the body ended early or is not written as its head says")
}
