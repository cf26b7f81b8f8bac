//! Charges and permits that cancelled or dropped requests still have to return to the store.
//!
//! A destructor cannot wait for a shared store, so it queues the return here. Every later decision
//! makes one return, which keeps pace with cancelled requests and delays each decision only
//! briefly. The [maintenance](crate::Maintenance) makes all.

use std::task::{Context, Waker};

use tollgate_core::Span;

use crate::decide::held_charges::HeldCharges;
use crate::decide::limiter::LimiterState;
use tollgate::Store;
use tollgate::sync::{AtomicUsize, Mutex, Ordering};

/// A return of charges or permits.
#[derive(Debug)]
pub(crate) enum PendingReturn {
    /// All charges and permits of a request that never proceeded.
    All(HeldCharges),
    /// The permits of a request.
    Permits(HeldCharges),
}

/// The returns that are not made yet.
#[derive(Debug, Default)]
pub(crate) struct PendingReturns {
    returns: Mutex<Vec<PendingReturn>>,
    /// The number of returns, readable without the lock.
    count: AtomicUsize,
}

impl PendingReturns {
    /// Whether no return is pending.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

impl<S: Store> LimiterState<S> {
    /// Makes a return now if that needs no waiting, as in memory; otherwise queues it.
    pub(crate) fn return_later(&self, pending: PendingReturn) {
        let (PendingReturn::All(held) | PendingReturn::Permits(held)) = &pending;
        if held.is_local || !self.store.is_shared() {
            let mut context = Context::from_waker(Waker::noop());
            let _ = std::pin::pin!(self.run_return(pending)).poll(&mut context);
            return;
        }
        self.pending_returns.count.fetch_add(1, Ordering::Relaxed);
        self.pending_returns.returns.lock().push(pending);
    }

    /// Makes all pending returns.
    pub(crate) async fn return_all(&self) {
        while self.return_one().await {}
    }

    /// Makes one pending return; returns `false` if there is none.
    pub(crate) async fn return_one(&self) -> bool {
        let Some(pending) = self.pending_returns.returns.lock().pop() else { return false };
        self.pending_returns.count.fetch_sub(1, Ordering::Relaxed);
        self.run_return(pending).await;
        true
    }

    async fn run_return(&self, pending: PendingReturn) {
        // The store reports its failures itself.
        match pending {
            PendingReturn::All(held) => {
                let _ = held.refund(self).await;
                if held.has_permits() {
                    self.queues.wake_all();
                }
            }
            PendingReturn::Permits(held) => {
                let _ = held.release(self, Span::ZERO, false).await;
                self.queues.released(&held);
            }
        }
    }
}
