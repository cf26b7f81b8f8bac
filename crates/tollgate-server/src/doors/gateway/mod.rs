//! The gateway: a reverse proxy that asks the engine before it lets a request through.
//!
//! A request is [looked at](pass), decided, held back if a rule says so, and sent on over a
//! [lane](upstream) to an upstream; its answer streams back the same way. Its whole life is told to
//! the limiter through a [`Passage`](tollgate_tower::passage::Passage).

mod hops;
mod options;
mod pass;
mod upstream;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::net::http::HttpServer;
use crate::net::{Connection, Door, Drain};
use crate::server::Context;
use upstream::Upstreams;

pub use options::{GatewayOptions, UpstreamUrl, UpstreamUrlError};

/// The gateway.
#[derive(Clone, Debug)]
pub(crate) struct GatewayDoor {
    gateway: Arc<Gateway>,
    http: HttpServer,
}

/// What every connection is served with.
#[derive(Debug)]
struct Gateway {
    context: Context,
    options: GatewayOptions,
    upstreams: Upstreams,
}

/// One connection of a client.
#[derive(Debug)]
struct Visitor {
    gateway: Arc<Gateway>,
    peer: Option<SocketAddr>,
    drain: Drain,
}

impl GatewayDoor {
    pub(crate) fn new(context: Context, options: &GatewayOptions) -> GatewayDoor {
        let http = HttpServer::new(context.config.bounds);
        let upstreams = Upstreams::new(options);
        let gateway = Gateway { context, options: options.clone(), upstreams };
        GatewayDoor { gateway: Arc::new(gateway), http }
    }
}

impl Door for GatewayDoor {
    async fn serve(&self, connection: Connection) {
        let Connection { peer, ref drain, .. } = connection;
        let visitor = Visitor { gateway: self.gateway.clone(), peer, drain: drain.clone() };
        let visitor = Arc::new(visitor);
        let answer = |request| {
            let visitor = visitor.clone();
            async move { visitor.pass(request).await }
        };
        self.http.serve(connection, |_| answer).await;
    }
}
