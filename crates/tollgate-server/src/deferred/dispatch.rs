//! Starts the replay of each queue of deferred requests, and removes old requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Deferred;
use super::queue_key::DeferredQueueKey;
use super::replay::{ReplayWorker, RequestSender};
use crate::background::{self, BackgroundWorker};
use crate::clock;
use crate::net::Drain;

/// The interval of removing old finished requests.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Starts a task for each queue that gets its first request, and removes old requests.
pub(super) async fn dispatch<C: RequestSender>(
    new_queues: Arc<Mutex<UnboundedReceiver<Arc<DeferredQueueKey>>>>,
    deferred: Arc<Deferred>,
    sender: Arc<C>,
    drain: Drain,
) {
    let mut new_queues = new_queues.lock().await;
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        background::panic_point(BackgroundWorker::DeferredDispatch);
        tokio::select! {
            queue_key = new_queues.recv() => {
                let Some(queue_key) = queue_key else { return };
                let worker = Arc::new(ReplayWorker {
                    queue_key,
                    deferred: deferred.clone(),
                    sender: sender.clone(),
                });
                let drain = drain.clone();
                background::spawn_restarting(BackgroundWorker::DeferredReplay, move || {
                    let (worker, drain) = (worker.clone(), drain.clone());
                    async move {
                        tokio::select! {
                            () = worker.serve() => {}
                            () = drain.closing() => {}
                        }
                    }
                });
            }
            _ = sweep.tick() => {
                if let Err(error) = deferred.queue.sweep(clock::unix_ms()).await {
                    tracing::debug!(%error, "cannot remove old deferred requests; trying again later");
                }
            }
            () = drain.closing() => return,
        }
    }
}
