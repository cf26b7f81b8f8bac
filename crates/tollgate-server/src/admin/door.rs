//! The admin API's own address.

use tower::ServiceExt;

use crate::net::http::HttpServer;
use crate::net::{Connection, Door};
use crate::server::Context;

/// The admin API's own address.
#[derive(Clone, Debug)]
pub(crate) struct AdminDoor {
    http: HttpServer,
    router: axum::Router,
}

impl AdminDoor {
    pub(crate) fn new(context: Context) -> AdminDoor {
        let http = HttpServer::new(context.config.bounds);
        AdminDoor { http, router: super::own_router(context) }
    }
}

impl Door for AdminDoor {
    async fn serve(&self, connection: Connection) {
        let answer = |request: hyper::Request<hyper::body::Incoming>| {
            let routed = self.router.clone().oneshot(request);
            async move {
                let Ok(answer) = routed.await;
                answer
            }
        };
        self.http.serve(connection, |_| answer).await;
    }
}
