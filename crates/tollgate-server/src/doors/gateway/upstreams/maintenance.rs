//! The maintenance of an upstream: closes unused connections and checks its health.

use std::sync::{Arc, Weak};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::Request;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::super::options::GatewayOptions;
use super::super::upload::Upload;
use super::body::UpstreamBody;
use super::response_deadline::ResponseDeadline;
use super::upstream::{Upstream, UpstreamLoad};
use super::{LocalResource, SendError, UpstreamError};
use crate::background::{self, BackgroundWorker};
use crate::net::Drain;

/// The interval at which idle connections are checked.
const SWEEP: Duration = Duration::from_secs(1);
/// The maximum size of a health check response that is read, in bytes.
const MOST_SAID: usize = 64 << 10;

/// Starts the maintenance of an upstream, which ends when the server drains.
pub(super) fn start(upstream: &Arc<Upstream>, options: &Arc<GatewayOptions>, drain: &Drain) {
    let sweep = |upstream: Arc<Upstream>| async move { upstream.sweep() };
    every(SWEEP.min(options.idle_timeout), upstream, drain, sweep);
    let Some(path) = options.health.clone() else { return };
    let asked = options.clone();
    every(options.health_interval, upstream, drain, move |upstream| {
        let (options, path) = (asked.clone(), path.clone());
        async move {
            let deadline = options.health_interval.min(options.answer_timeout);
            let body_fields = timeout(deadline, ask(&upstream, &options, &path)).await;
            let late = || Err(format!("{path} is not answered within {deadline:?}"));
            upstream.health.says(body_fields.unwrap_or_else(|_| late()));
        }
    });
}

fn every<F: Future<Output = ()> + Send>(
    time: Duration,
    upstream: &Arc<Upstream>,
    drain: &Drain,
    task: impl Fn(Arc<Upstream>) -> F + Send + Sync + 'static,
) {
    let (upstream, drain): (Weak<Upstream>, Drain) = (Arc::downgrade(upstream), drain.clone());
    let task = Arc::new(task);
    background::spawn_restarting(BackgroundWorker::Upstream, move || {
        let (upstream, drain, task) = (upstream.clone(), drain.clone(), task.clone());
        async move {
            let mut ticks = interval(time.max(Duration::from_millis(10)));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = drain.closing() => return,
                }
                background::panic_point(BackgroundWorker::Upstream);
                let Some(upstream) = upstream.upgrade() else { return };
                task(upstream).await;
            }
        }
    });
}

/// Checks the health of an upstream; any status but an error passes.
async fn ask(upstream: &Arc<Upstream>, options: &GatewayOptions, path: &str) -> Result<(), String> {
    let request = Request::get(path).body(Upload::empty()).map_err(|error| error.to_string())?;
    let deadline = ResponseDeadline::new(options, None);
    let channel = upstream.channel().await;
    let channel = match channel {
        Ok(channel) => channel,
        // A shortage on this machine says nothing about the upstream; the next check will.
        Err(error) if LocalResource::missing(&error).is_some() => return Ok(()),
        Err(error) => return Err(UpstreamError::Connect(error).to_string()),
    };
    let (answer, connection) = match upstream.send(channel, request, deadline).await {
        Ok(answered) => answered,
        // The connection was just closed, which says nothing; the next check will.
        Err(SendError::Unsent(_)) => return Ok(()),
        Err(SendError::Failed(error)) => return Err(error.to_string()),
    };
    let status = answer.status();
    // The body is read to its end so that the connection can be reused.
    let body = answer.into_body();
    let body = UpstreamBody::new(
        body,
        connection,
        None,
        UpstreamLoad::new(upstream),
        options.pause_timeout,
    );
    let _ = Limited::new(body, MOST_SAID).collect().await;
    match status.is_client_error() || status.is_server_error() {
        true => Err(format!("{path} is answered with {status}")),
        false => Ok(()),
    }
}
