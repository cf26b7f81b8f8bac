//! The listener of a rules service that runs alone.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::RulesService;
use super::routes::router;
use crate::config::Bounds;
use crate::net::http::RouterDoor;
use crate::net::{self, Connections, Drainer, Listener};

/// How long requests that are being answered may take once the service stops.
const DRAIN: Duration = Duration::from_secs(5);

impl RulesService {
    /// Answers requests until `stop` is done, then finishes those that are under way.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (stopping, seen) = watch::channel(false);
        let routes = router(self.context(seen), self.guard());
        // Who fetches rules has something to ask at once.
        let patience = self.options.header_timeout;
        let bounds =
            Bounds { header_timeout: patience, idle_timeout: patience, ..Bounds::default() };
        let connections = Connections::new(self.options.connections);
        let (drainer, drain) = Drainer::new();
        let door = RouterDoor::new(bounds, routes);
        let serving = net::serve(Listener::plain(listener), connections.clone(), drain, door);
        tokio::select! {
            () = serving => {}
            () = stop => {}
        }
        stopping.send_replace(true);
        drainer.close();
        let _ = tokio::time::timeout(DRAIN, connections.empty()).await;
        Ok(())
    }
}
