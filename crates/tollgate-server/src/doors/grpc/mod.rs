//! The gRPC door: Envoy's rate limit service.

use crate::net::{Connection, Door};
use crate::server::Context;

/// The gRPC door.
#[derive(Clone, Debug)]
pub(crate) struct GrpcDoor {
    context: Context,
}

impl GrpcDoor {
    pub(crate) fn new(context: Context) -> GrpcDoor {
        GrpcDoor { context }
    }
}

impl Door for GrpcDoor {
    async fn serve(&self, connection: Connection) {
        let _ = &self.context;
        connection.stream.close().await;
    }
}
