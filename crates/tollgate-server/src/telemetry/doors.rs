//! Counts the connections of a door.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::net::{Connection, Door};

/// A door whose connections are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<D> {
    door: D,
    open: Arc<AtomicU64>,
}

impl<D> Counted<D> {
    pub(crate) fn new(door: D, open: Arc<AtomicU64>) -> Counted<D> {
        Counted { door, open }
    }
}

/// Counts down, also when the connection's task is cut off.
struct OneMore<'c>(&'c AtomicU64);

impl Drop for OneMore<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<D: Door> Door for Counted<D> {
    async fn serve(&self, connection: Connection) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let _counted = OneMore(&self.open);
        self.door.serve(connection).await;
    }
}
