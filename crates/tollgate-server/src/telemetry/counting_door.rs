//! A door wrapper that counts open connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::net::{Connection, Door};

/// A door that counts its open connections.
#[derive(Clone, Debug)]
pub(crate) struct CountingDoor<D> {
    door: D,
    open: Arc<AtomicU64>,
}

impl<D> CountingDoor<D> {
    pub(crate) fn new(door: D, open: Arc<AtomicU64>) -> CountingDoor<D> {
        CountingDoor { door, open }
    }
}

/// A guard that counts a connection as closed when its task ends or is cancelled.
struct OpenConnection<'c>(&'c AtomicU64);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<D: Door> Door for CountingDoor<D> {
    async fn serve(&self, connection: Connection) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let _counted = OpenConnection(&self.open);
        self.door.serve(connection).await;
    }
}
