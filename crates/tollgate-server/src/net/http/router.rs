//! A door that serves an axum router.

use std::sync::Arc;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use tower::ServiceExt;

use super::HttpServer;
use crate::config::Bounds;
use crate::net::{BodyBudget, BodyMemory, Connection, Door};

/// A door that serves an axum router.
#[derive(Clone, Debug)]
pub(crate) struct RouterDoor {
    http: HttpServer,
    bodies: Arc<BodyBudget>,
    router: Router,
}

impl RouterDoor {
    pub(crate) fn new(bounds: Bounds, bodies: Arc<BodyBudget>, router: Router) -> RouterDoor {
        RouterDoor { http: HttpServer::new(bounds), bodies, router }
    }
}

impl Door for RouterDoor {
    async fn serve(&self, connection: Connection) {
        let memory = BodyMemory::new(&self.bodies, connection.peer.map(|peer| peer.ip()));
        let handler = |mut request: Request<Incoming>| {
            request.extensions_mut().insert(memory.clone());
            let routed = self.router.clone().oneshot(request);
            async move {
                let Ok(response) = routed.await;
                response
            }
        };
        self.http.serve(connection, |_| handler).await;
    }
}
