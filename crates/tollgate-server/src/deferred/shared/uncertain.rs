//! Requests that may or may not have been stored, because the reply of the store was lost.
//!
//! A request has its id before it is stored, so storing it again is harmless. If the store stays
//! silent for too long, the client is told that the request was not stored, and the request is
//! withdrawn as soon as the store answers again.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use tollgate::{StoreError, StoreErrorKind};
use tollgate_redis::ServerReply;

use super::{POLL_INTERVAL, RedisQueue, store_error};
use crate::clock;
use crate::deferred::item::ItemId;
use crate::deferred::queue::Result;

/// The time for which a request is stored again and again.
const RETRY_FOR: Duration = Duration::from_secs(3);
/// The maximum number of requests to withdraw.
const MAX_UNCERTAIN: usize = 10_000;

/// The requests to withdraw, in case they were stored.
#[derive(Debug, Default)]
pub(super) struct UncertainRequests(Mutex<VecDeque<ItemId>>);

impl UncertainRequests {
    pub(super) fn add(&self, id: ItemId) {
        let mut ids = self.0.lock();
        if ids.len() == MAX_UNCERTAIN {
            ids.pop_front();
        }
        ids.push_back(id);
    }

    fn first(&self) -> Option<ItemId> {
        self.0.lock().front().copied()
    }

    fn forget(&self, id: ItemId) {
        self.0.lock().retain(|other| *other != id);
    }
}

/// Returns whether the store may have executed a call with this error.
fn may_have_executed(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::TimedOut | StoreErrorKind::Unreachable)
}

impl RedisQueue {
    /// Repeats a call that may be executed twice until it is answered.
    pub(super) async fn call_until_answered(
        &self,
        id: ItemId,
        args: &[&[u8]],
    ) -> Result<ServerReply> {
        let error = match self.0.functions.call(args).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        if !may_have_executed(&error) {
            return Err(store_error(&error));
        }
        let retries = async {
            loop {
                sleep(POLL_INTERVAL).await;
                if let Ok(reply) = self.0.functions.call(args).await {
                    return reply;
                }
            }
        };
        timeout(RETRY_FOR, retries).await.map_err(|_| {
            self.0.uncertain.add(id);
            store_error(&error)
        })
    }

    /// Withdraws requests whose clients were told that they were not stored.
    pub(super) async fn withdraw_uncertain(&self) -> Result<()> {
        while let Some(id) = self.0.uncertain.first() {
            let (name, now, keep) = (id.to_string(), clock::unix_ms().to_string(), self.keep_ms());
            let args = [b"withdraw", name.as_bytes(), now.as_bytes(), keep.as_bytes()];
            if self.call(&args).await? == ServerReply::Int(0) {
                tracing::warn!(
                    id = name,
                    "a deferred request was sent although its client was told that it was not stored"
                );
            }
            self.0.uncertain.forget(id);
        }
        Ok(())
    }
}
