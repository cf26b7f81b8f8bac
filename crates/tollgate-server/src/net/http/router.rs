//! A door that serves an axum router.

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use tower::ServiceExt;

use super::HttpServer;
use crate::config::Bounds;
use crate::net::{Connection, Door};

/// A door that serves an axum router.
#[derive(Clone, Debug)]
pub(crate) struct RouterDoor {
    http: HttpServer,
    router: Router,
}

impl RouterDoor {
    pub(crate) fn new(bounds: Bounds, router: Router) -> RouterDoor {
        RouterDoor { http: HttpServer::new(bounds), router }
    }
}

impl Door for RouterDoor {
    async fn serve(&self, connection: Connection) {
        let handler = |request: Request<Incoming>| {
            let routed = self.router.clone().oneshot(request);
            async move {
                let Ok(response) = routed.await;
                response
            }
        };
        self.http.serve(connection, |_| handler).await;
    }
}
