//! The listener of a rules service: bounded connections, bounded patience, an orderly end.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::RulesService;
use super::routes::router;

/// How long requests that are being answered may take once the service stops.
const DRAIN: Duration = Duration::from_secs(5);
/// After the system refused a connection, most often because too many files are open.
const BREATHER: Duration = Duration::from_millis(50);

impl RulesService {
    /// Answers requests until `stop` is done, then finishes those that are under way.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (stopping, seen) = watch::channel(false);
        let context = self.context(seen, None);
        let service = TowerToHyperService::new(router(context, self.guard()));
        let mut http = http1::Builder::new();
        // Without a timer the timeout would be none.
        http.timer(TokioTimer::new()).header_read_timeout(self.options.header_timeout);
        http.max_buf_size(64 << 10);

        let places = Arc::new(Semaphore::new(self.options.connections));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            // A place first: who finds none waits in the system's line, where it costs nothing.
            let accepted = tokio::select! {
                accepted = accept(&listener, &places) => accepted,
                () = &mut stop => break,
            };
            let Some((stream, place)) = accepted else { continue };
            let connection = http.serve_connection(TokioIo::new(stream), service.clone());
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                // A client that goes away is its own business.
                let _ = connection.await;
                drop(place);
            });
        }
        drop(listener);
        stopping.send_replace(true);
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
        Ok(())
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, place))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(BREATHER).await;
            None
        }
    }
}
