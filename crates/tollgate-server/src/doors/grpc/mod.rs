//! The gRPC door: Envoy's rate limit service, health and reflection.
//!
//! One method is asked all the time, so it has a short road: HTTP/2 frames straight into a message
//! and back ([`call`]), on the task of the connection ([`connection`]). Everything else goes through
//! tonic ([`others`]).

mod answer;
mod ask;
mod call;
mod connection;
pub(crate) mod json;
mod keepalive;
mod others;
#[rustfmt::skip]
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, reason = "generated")]
mod proto;
mod question;
mod status;

use std::sync::Arc;

use http::HeaderMap;

use crate::net::{Connection, Door};
use crate::server::Context;
use others::Others;

/// The gRPC door.
#[derive(Clone, Debug)]
pub(crate) struct GrpcDoor(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    context: Context,
    others: Others,
}

impl GrpcDoor {
    pub(crate) fn new(context: Context) -> GrpcDoor {
        let others = Others::new(&context.drain);
        GrpcDoor(Arc::new(Inside { context, others }))
    }
}

impl Inside {
    /// Whether a caller may ask.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let tokens = self.context.config.data_tokens.as_ref();
        tokens.is_none_or(|tokens| tokens.owner_in(headers).is_some())
    }
}

impl Door for GrpcDoor {
    async fn serve(&self, connection: Connection) {
        connection::serve(&self.0, connection).await;
    }
}
