//! The listener of a stand-alone rules service.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::routes::router;
use super::{MAX_BODY, RulesService};
use crate::config::Bounds;
use crate::net::http::{BrowserGuard, RouterDoor};
use crate::net::{self, BodyBudget, Connections, Drainer, Listener};

/// The maximum time for requests in flight to finish once the service stops.
const DRAIN: Duration = Duration::from_secs(5);

impl RulesService {
    /// Serves requests until `stop` completes, then finishes the requests in flight.
    pub fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<()>> {
        self.serve_boxed(listener, Box::pin(stop))
    }

    /// Not generic and boxed, so that the listener is compiled in this crate.
    fn serve_boxed(
        self,
        listener: TcpListener,
        stop: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(self.serve_until(listener, stop))
    }

    async fn serve_until(
        self,
        listener: TcpListener,
        stop: BoxFuture<'static, ()>,
    ) -> io::Result<()> {
        let (stopping, seen) = watch::channel(false);
        let routes = router(self.context(seen), self.guard());
        // A limiter sends its request at once, so that the idle timeout can be as short.
        let timeout = self.options.header_timeout;
        let bounds = Bounds { header_timeout: timeout, idle_timeout: timeout, ..Bounds::default() };
        let connections = Connections::new(self.options.connections);
        let (drainer, drain) = Drainer::new();
        let bodies = BodyBudget::new(&bounds, MAX_BODY);
        let door = RouterDoor::new(bounds, bodies, routes, BrowserGuard::default());
        let admitted = connections.add_door("rules");
        let serving = net::serve(Arc::new(Listener::plain(listener)), admitted, drain, door);
        tokio::select! {
            () = serving => {}
            () = stop => {}
        }
        stopping.send_replace(true);
        drainer.close();
        let _ = tokio::time::timeout(DRAIN, connections.wait_until_empty()).await;
        Ok(())
    }
}
