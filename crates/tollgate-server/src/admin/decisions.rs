//! The calls for recent decisions and for the live tail, which is a stream of server-sent events.

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
use crate::problem::{Problem, Result};
use crate::rules_service::extract::UrlQuery;
use crate::server::Context;
use crate::telemetry::{EventFilter, TailEvent, TailSubscription};

/// The interval of comments that show that a silent connection is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DecisionsQuery {
    /// `?follow` or `?follow=true`.
    follow: Option<String>,
    sample: Option<f64>,
    outcome: Option<String>,
    domain: Option<String>,
    rule: Option<String>,
    limit: Option<usize>,
}

impl DecisionsQuery {
    fn follows(&self) -> Result<bool> {
        match self.follow.as_deref() {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(Problem::bad_request("`follow` is true or false")),
        }
    }

    fn filter(&self) -> Result<EventFilter> {
        let refused = match self.outcome.as_deref() {
            None => None,
            Some("allowed") => Some(false),
            Some("denied") => Some(true),
            Some(_) => return Err(Problem::bad_request("`outcome` is allowed or denied")),
        };
        if self.sample.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(Problem::bad_request("`sample` is a share from 0 to 1, such as 0.1"));
        }
        let (domain, rule) = (self.domain.clone(), self.rule.clone());
        Ok(EventFilter { domain, rule, refused, share: self.sample })
    }
}

pub(super) async fn decisions(
    State(context): State<Context>,
    UrlQuery(asked): UrlQuery<DecisionsQuery>,
) -> Result<Response> {
    let filter = asked.filter()?;
    let telemetry = context.decisions.telemetry();
    if !asked.follows()? {
        let limit = asked.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let decisions = telemetry.recent(&filter, limit);
        return Ok(Json(json!({ "decisions": decisions })).into_response());
    }
    let Some(subscription) = telemetry.subscribe(filter) else {
        let detail = "too many clients follow the decisions; try again when one has disconnected";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-followers", detail));
    };
    let stream = DecisionStream { subscription, closing: Box::pin(closing(context.drain.clone())) };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(stream).keep_alive(keep_alive).into_response())
}

async fn closing(drain: Drain) {
    drain.closing().await;
}

/// A stream of decision events that ends when the server closes.
struct DecisionStream {
    subscription: TailSubscription,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stream for DecisionStream {
    type Item = std::result::Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        if self.closing.as_mut().poll(task).is_ready() {
            return Poll::Ready(None);
        }
        let event = |item| match item {
            // JSON on one line, so that nothing a client sent can begin another event.
            TailEvent::Decision(text) => Event::default().data(&*text),
            TailEvent::Dropped(count) => {
                Event::default().event("dropped").data(json!({ "dropped": count }).to_string())
            }
        };
        self.subscription.poll_next(task).map(|item| item.map(|item| Ok(event(item))))
    }
}
