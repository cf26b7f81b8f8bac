//! Decisions as they are made, as server-sent events, and the last few.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::Deserialize;
use serde_json::json;

use crate::net::Drain;
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::Asked;
use crate::server::Context;
use crate::telemetry::{Seen, Wanted, Watch};

/// A connection on which nothing happens is alive all the same.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const LINES: usize = 50;
const MOST_LINES: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Question {
    /// `?follow`, `?follow=true`.
    follow: Option<String>,
    sample: Option<f64>,
    outcome: Option<String>,
    domain: Option<String>,
    rule: Option<String>,
    limit: Option<usize>,
}

impl Question {
    fn follows(&self) -> Result<bool> {
        match self.follow.as_deref() {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(Problem::bad_request("follow is true or false")),
        }
    }

    fn wanted(&self) -> Result<Wanted> {
        let refused = match self.outcome.as_deref() {
            None => None,
            Some("allowed") => Some(false),
            Some("denied") => Some(true),
            Some(_) => return Err(Problem::bad_request("outcome is allowed or denied")),
        };
        if self.sample.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(Problem::bad_request("sample is a share from 0 to 1, such as 0.1"));
        }
        let (domain, rule) = (self.domain.clone(), self.rule.clone());
        Ok(Wanted { domain, rule, refused, share: self.sample })
    }
}

pub(super) async fn decisions(
    State(context): State<Context>,
    Asked(asked): Asked<Question>,
) -> Result<Response> {
    let wanted = asked.wanted()?;
    let telemetry = context.engine.telemetry();
    if !asked.follows()? {
        let limit = asked.limit.unwrap_or(LINES).clamp(1, MOST_LINES);
        let decisions = telemetry.recent(&wanted, limit);
        return Ok(Json(json!({ "decisions": decisions })).into_response());
    }
    let Some(watch) = telemetry.watch(wanted) else {
        let detail = "too many follow the decisions already; try again when one of them is gone";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-followers", detail));
    };
    let following = Following { watch, closing: Box::pin(closing(context.drain.clone())) };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(following).keep_alive(keep_alive).into_response())
}

async fn closing(drain: Drain) {
    drain.closing().await;
}

/// Events until the server closes.
struct Following {
    watch: Watch,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stream for Following {
    type Item = std::result::Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        if self.closing.as_mut().poll(task).is_ready() {
            return Poll::Ready(None);
        }
        let event = |seen| match seen {
            // JSON in one line: nothing a client sent can begin another event.
            Seen::Decision(text) => Event::default().data(&*text),
            Seen::Dropped(count) => {
                Event::default().event("dropped").data(json!({ "dropped": count }).to_string())
            }
        };
        self.watch.poll_next(task).map(|seen| seen.map(|seen| Ok(event(seen))))
    }
}
