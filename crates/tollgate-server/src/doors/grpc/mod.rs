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
pub(crate) mod request;
mod status;

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tonic::Code;

use crate::access::{Permission, Role, bearer};
use crate::live_tokens::AccessRefusal;
use crate::net::{Connection, Door};
use crate::server::Context;
use health_reflection::HealthReflection;
use status::GrpcStatus;

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
    /// Returns the role of the caller's token, where tokens are configured.
    fn role(&self, headers: &HeaderMap) -> Option<Role> {
        if self.context.access.is_open() {
            return None;
        }
        let token = bearer(headers.get(AUTHORIZATION)?.as_bytes())?;
        self.context.access.authenticate(token).map(|(_, role)| role)
    }

    /// Checks whether a caller has a right, where tokens are configured.
    fn authorize(&self, role: Option<Role>, permission: Permission) -> Result<(), GrpcStatus> {
        let access = &self.context.access;
        if access.is_open() {
            return Ok(());
        }
        access.check(role, permission).map_err(|refusal| {
            let code = match refusal {
                AccessRefusal::NoToken(_) => Code::Unauthenticated,
                AccessRefusal::WrongRole(..) => Code::PermissionDenied,
            };
            GrpcStatus::new(code, refusal.detail("authorization: Bearer …"))
        })
    }
}

impl Door for GrpcDoor {
    async fn serve(&self, connection: Connection) {
        connection::serve(&self.0, connection).await;
    }
}
