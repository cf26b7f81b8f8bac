//! The gRPC door: Envoy's rate limit service, health and reflection.
//!
//! `ShouldRateLimit` has a fast path: HTTP/2 frames become a message and back ([`call`]) on the task
//! of the connection ([`connection`]), without tonic. tonic serves all other methods
//! ([`health_reflection`]). The request is read by [`request`], from protobuf and from
//! [JSON](json) alike.

mod call;
mod connection;
mod decide;
mod health_reflection;
pub(crate) mod json;
#[rustfmt::skip]
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, reason = "generated")]
mod proto;
mod request;
mod status;

use std::sync::Arc;

use http::HeaderMap;

use crate::net::{Connection, Door};
use crate::server::Context;
use health_reflection::HealthReflection;

/// The gRPC door.
#[derive(Clone, Debug)]
pub(crate) struct GrpcDoor(Arc<GrpcServices>);

/// The services that all connections of the door share.
#[derive(Debug)]
struct GrpcServices {
    context: Context,
    health_reflection: HealthReflection,
}

impl GrpcDoor {
    pub(crate) fn new(context: Context) -> GrpcDoor {
        let health_reflection = HealthReflection::new(&context.drain);
        GrpcDoor(Arc::new(GrpcServices { context, health_reflection }))
    }
}

impl GrpcServices {
    /// Returns whether the headers carry a valid token, where tokens are configured.
    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let tokens = self.context.config.data_tokens.as_ref();
        tokens.is_none_or(|tokens| tokens.authenticate_headers(headers).is_some())
    }
}

impl Door for GrpcDoor {
    async fn serve(&self, connection: Connection) {
        connection::serve(&self.0, connection).await;
    }
}
