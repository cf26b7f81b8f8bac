//! Looks after an upstream: closes connections that nobody needs, and asks how it is.

use std::sync::{Arc, Weak};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::Request;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::super::options::GatewayOptions;
use super::super::upload::Upload;
use super::body::UpstreamBody;
use super::patience::Patience;
use super::upstream::{Load, Upstream};
use super::{SendError, UpstreamError};
use crate::net::Drain;

/// How often idle connections are looked at.
const SWEEP: Duration = Duration::from_secs(1);
/// What is read of an upstream's word about itself, in bytes.
const MOST_SAID: usize = 64 << 10;

/// Looks after an upstream until the server drains.
pub(super) fn start(upstream: &Arc<Upstream>, options: &Arc<GatewayOptions>, drain: &Drain) {
    let sweep = |upstream: Arc<Upstream>| async move { upstream.sweep() };
    every(SWEEP.min(options.idle_timeout), upstream, drain, sweep);
    let Some(path) = options.health.clone() else { return };
    let asked = options.clone();
    every(options.health_interval, upstream, drain, move |upstream| {
        let (options, path) = (asked.clone(), path.clone());
        async move {
            let patience = options.health_interval.min(options.answer_timeout);
            let said = timeout(patience, ask(&upstream, &options, &path)).await;
            let late = || Err(format!("{path} is not answered within {patience:?}"));
            upstream.health.says(said.unwrap_or_else(|_| late()));
        }
    });
}

fn every<F: Future<Output = ()> + Send>(
    time: Duration,
    upstream: &Arc<Upstream>,
    drain: &Drain,
    task: impl Fn(Arc<Upstream>) -> F + Send + 'static,
) {
    let (upstream, drain): (Weak<Upstream>, Drain) = (Arc::downgrade(upstream), drain.clone());
    tokio::spawn(async move {
        let mut ticks = interval(time.max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = drain.closing() => return,
            }
            let Some(upstream) = upstream.upgrade() else { return };
            task(upstream).await;
        }
    });
}

/// Asks an upstream how it is; anything but an error will do.
async fn ask(upstream: &Arc<Upstream>, options: &GatewayOptions, path: &str) -> Result<(), String> {
    let request = Request::get(path).body(Upload::empty()).map_err(|error| error.to_string())?;
    let patience = Patience::new(options, None);
    let way = upstream.way().await;
    let way = way.map_err(|error| UpstreamError::Connect(error).to_string())?;
    let (answer, lane) = match upstream.send(way, request, patience).await {
        Ok(answered) => answered,
        // It was closed just then: that says nothing, and the next question will.
        Err(SendError::Unsent(_)) => return Ok(()),
        Err(SendError::Failed(error)) => return Err(error.to_string()),
    };
    let status = answer.status();
    // Read to its end, so that the lane can be used again.
    let body = answer.into_body();
    let body = UpstreamBody::new(body, lane, None, Load::new(upstream), options.pause_timeout);
    let _ = Limited::new(body, MOST_SAID).collect().await;
    match status.is_client_error() || status.is_server_error() {
        true => Err(format!("{path} is answered with {status}")),
        false => Ok(()),
    }
}
