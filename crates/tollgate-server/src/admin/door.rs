//! The admin API's own address.

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tower::ServiceExt;

use crate::net::{Connection, Door};
use crate::server::Context;

/// What a head may have.
const LONGEST_HEAD: usize = 64 << 10;

/// The admin API's own address.
#[derive(Clone, Debug)]
pub(crate) struct AdminDoor {
    context: Context,
    router: axum::Router,
}

impl AdminDoor {
    pub(crate) fn new(context: Context) -> AdminDoor {
        let router = super::own_router(context.clone());
        AdminDoor { context, router }
    }
}

impl Door for AdminDoor {
    async fn serve(&self, connection: Connection) {
        let bounds = &self.context.config.bounds;
        let mut http = auto::Builder::new(TokioExecutor::new());
        // Without a timer the timeouts would be none.
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_buf_size(LONGEST_HEAD);
        http.http2().timer(TokioTimer::new()).max_concurrent_streams(bounds.streams);
        let Connection { stream, seat, drain, .. } = connection;
        let service = service_fn(|request| {
            seat.heard();
            self.router.clone().oneshot(request)
        });
        let served = http.serve_connection(TokioIo::new(stream), service);
        let mut served = std::pin::pin!(served);
        tokio::select! {
            _ = served.as_mut() => return,
            () = seat.wanted() => return,
            () = drain.closing() => served.as_mut().graceful_shutdown(),
        }
        // Who watches the drain sets the end of patience.
        let _ = served.await;
    }
}
