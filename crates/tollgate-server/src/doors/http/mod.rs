//! The HTTP door.

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tower::ServiceExt;

use crate::net::{Connection, Door};
use crate::server::Context;

/// The HTTP door.
#[derive(Clone, Debug)]
pub(crate) struct HttpDoor {
    context: Context,
}

impl HttpDoor {
    pub(crate) fn new(context: Context) -> HttpDoor {
        HttpDoor { context }
    }
}

impl Door for HttpDoor {
    async fn serve(&self, connection: Connection) {
        let router = crate::admin::router(self.context.clone());
        let service = service_fn(move |request| router.clone().oneshot(request));
        let http = auto::Builder::new(TokioExecutor::new());
        let _ = http.serve_connection(TokioIo::new(connection.stream), service).await;
    }
}
