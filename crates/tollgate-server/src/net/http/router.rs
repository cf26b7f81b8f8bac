//! A door that serves an axum router.

use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use hyper::Request;
use hyper::body::Incoming;
use tower::ServiceExt;

use super::{BrowserGuard, HttpServer};
use crate::config::Bounds;
use crate::net::{BodyBudget, BodyMemory, Connection, Door};

/// A door that serves an axum router.
#[derive(Clone, Debug)]
pub(crate) struct RouterDoor {
    http: HttpServer,
    bodies: Arc<BodyBudget>,
    router: Router,
    guard: BrowserGuard,
}

impl RouterDoor {
    pub(crate) fn new(
        bounds: Bounds,
        bodies: Arc<BodyBudget>,
        router: Router,
        guard: BrowserGuard,
    ) -> RouterDoor {
        RouterDoor { http: HttpServer::new(bounds), bodies, router, guard }
    }
}

impl Door for RouterDoor {
    async fn serve(&self, connection: Connection) {
        let peer = connection.peer;
        let memory = BodyMemory::new(&self.bodies, peer.map(|peer| peer.ip()));
        let handler = |mut request: Request<Incoming>| {
            let checked = self.guard.check(&request, peer);
            request.extensions_mut().insert(memory.clone());
            let routed = self.router.clone().oneshot(request);
            async move {
                if let Err(problem) = checked {
                    return problem.into_response();
                }
                let Ok(response) = routed.await;
                response
            }
        };
        self.http.serve(connection, |_| handler).await;
    }
}
