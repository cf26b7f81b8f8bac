//! Runs the maintenance of a limiter while requests hold permits: one task for all of them.

use tollgate_rules::Admission;

/// Starts the maintenance if an admission needs it and no task runs it yet.
pub(super) fn start(admission: &Admission) {
    // Without a runtime a request has its permits for as long as their maintenance say.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let Some(mut maintenance) = admission.maintenance() else { return };
    runtime.spawn(async move {
        while let Some(pause) = maintenance.run().await {
            tokio::time::sleep(pause).await;
        }
    });
}
