//! Renews the leases of requests that take long: one task for a limiter, while there are any.

use tollgate::Store;
use tollgate::rules::RuleLimiter;

/// Sees to it that somebody tends the leases of requests that are kept.
pub(super) fn tend<S: Store + 'static>(limiter: &RuleLimiter<S>) {
    // Without a runtime a request has its places for as long as its leases say.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if !limiter.is_to_be_tended() {
        return;
    }
    let limiter = limiter.clone();
    runtime.spawn(async move {
        loop {
            match limiter.renew_due().await {
                Some(again) => tokio::time::sleep(again).await,
                None if limiter.is_tended_no_more() => return,
                None => {}
            }
        }
    });
}
