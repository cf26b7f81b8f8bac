//! Running work so that a panic does not end more than it must.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::sleep;

use super::{BackgroundWorker, PanicGuard, panic_text, record_panic};
use crate::clock;

/// The pause before a worker starts again. It doubles with each panic, up to a maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The time without a panic after which the pause is the first one again, in milliseconds.
const CALM_MS: u64 = 60_000;

/// Spawns a task that starts again after a panic, until it ends without one.
pub(crate) fn spawn_restarting<F: Future<Output = ()> + Send>(
    worker: BackgroundWorker,
    mut start: impl FnMut() -> F + Send + 'static,
) {
    tokio::spawn(async move {
        let mut pause = FIRST_PAUSE;
        loop {
            let started_ms = clock::monotonic_ms();
            let run = AssertUnwindSafe(async { start().await });
            let Err(panic) = run.catch_unwind().await else { return };
            record_panic(worker, &panic_text(&*panic));
            if clock::monotonic_ms().saturating_sub(started_ms) >= CALM_MS {
                pause = FIRST_PAUSE;
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    });
}

/// Returns a future whose panic is recorded, and ends its task.
pub(crate) async fn guarded<F: Future>(worker: BackgroundWorker, work: F) -> F::Output {
    let _guard = PanicGuard::new(worker);
    super::panic_point(worker);
    work.await
}

/// Runs a job of a thread; a panic is recorded, and its message returned.
///
/// The caller must not use what the job may have left half changed.
pub(crate) fn catch_panic<T>(
    worker: BackgroundWorker,
    job: impl FnOnce() -> T,
) -> Result<T, String> {
    let job = AssertUnwindSafe(|| {
        super::panic_point(worker);
        job()
    });
    catch_unwind(job).map_err(|panic| {
        let message = panic_text(&*panic);
        record_panic(worker, &message);
        message
    })
}

/// Runs a step of a task; a panic is recorded, and its message returned.
pub(crate) async fn catch_panic_async<F: Future>(
    worker: BackgroundWorker,
    step: F,
) -> Result<F::Output, String> {
    let step = async {
        super::panic_point(worker);
        step.await
    };
    AssertUnwindSafe(step).catch_unwind().await.map_err(|panic| {
        let message = panic_text(&*panic);
        record_panic(worker, &message);
        message
    })
}
