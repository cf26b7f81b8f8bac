//! Requests of which nobody knows whether they were kept: the store may have done what it was asked to,
//! and its answer was lost.
//!
//! A request has its name before it is handed over, so it can be handed over again without being kept
//! twice. If the store stays silent for too long its client is told that the request was not kept, and
//! that is made true as soon as the store answers again.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use tollgate::{StoreError, StoreErrorKind};
use tollgate_redis::DeskReply;

use super::{InRedis, LOOK, trouble};
use crate::clock;
use crate::deferred::item::ItemId;
use crate::deferred::queue::Result;

/// For how long a request is handed over again.
const INSIST: Duration = Duration::from_secs(3);
/// How many are remembered that are to be taken back.
const MOST: usize = 10_000;

/// Requests that are to be taken back, if they were kept.
#[derive(Debug, Default)]
pub(super) struct Unheard(Mutex<VecDeque<ItemId>>);

impl Unheard {
    pub(super) fn note(&self, id: ItemId) {
        let mut ids = self.0.lock();
        if ids.len() == MOST {
            ids.pop_front();
        }
        ids.push_back(id);
    }

    fn first(&self) -> Option<ItemId> {
        self.0.lock().front().copied()
    }

    fn forget(&self, id: ItemId) {
        self.0.lock().retain(|known| *known != id);
    }
}

/// Whether the store may have done what it was asked to.
fn is_unknown(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::TimedOut | StoreErrorKind::Unreachable)
}

impl InRedis {
    /// Asks for something that may be done twice, until the answer is heard.
    pub(super) async fn call_until_heard(&self, id: ItemId, words: &[&[u8]]) -> Result<DeskReply> {
        let error = match self.0.desk.call(words).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        if !is_unknown(&error) {
            return Err(trouble(&error));
        }
        let insist = async {
            loop {
                sleep(LOOK).await;
                if let Ok(reply) = self.0.desk.call(words).await {
                    return reply;
                }
            }
        };
        timeout(INSIST, insist).await.map_err(|_| {
            self.0.unheard.note(id);
            trouble(&error)
        })
    }

    /// Takes back what clients were told is not kept.
    pub(super) async fn take_back(&self) -> Result<()> {
        while let Some(id) = self.0.unheard.first() {
            let (name, now, keep) = (id.to_string(), clock::unix_ms().to_string(), self.keep_ms());
            let words = [b"withdraw", name.as_bytes(), now.as_bytes(), keep.as_bytes()];
            if self.call(&words).await? == DeskReply::Number(0) {
                tracing::warn!(
                    id = name,
                    "a deferred request was sent although its client was told that it was not kept"
                );
            }
            self.0.unheard.forget(id);
        }
        Ok(())
    }
}
