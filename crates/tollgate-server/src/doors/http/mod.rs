//! The HTTP door: decisions, forward-auth, operations, on HTTP/1.1 and HTTP/2.
//!
//! Decision calls are matched before anything else and answered without a router; whatever is
//! left goes to the [admin](crate::admin) routes.

mod ask;
mod batch;
mod body;
mod call;
mod decide;
mod outcome;
mod render;
mod values;
mod visit;

use std::sync::Arc;

use crate::net::http::HttpServer;
use crate::net::{Connection, Door};
use crate::server::Context;
use visit::{Desk, Visit};

pub(crate) use decide::limited;
pub(crate) use visit::Reply;

/// The HTTP door.
#[derive(Clone, Debug)]
pub(crate) struct HttpDoor {
    desk: Arc<Desk>,
    http: HttpServer,
}

impl HttpDoor {
    pub(crate) fn new(context: Context) -> HttpDoor {
        let http = HttpServer::new(context.config.bounds);
        HttpDoor { desk: Arc::new(Desk::new(context)), http }
    }
}

impl Door for HttpDoor {
    async fn serve(&self, connection: Connection) {
        let visit = Arc::new(Visit::new(self.desk.clone(), connection.peer));
        let answer = |request| {
            let visit = visit.clone();
            async move { visit.answer(request).await }
        };
        self.http.serve(connection, |_| answer).await;
    }
}
