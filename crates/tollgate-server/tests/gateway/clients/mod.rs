//! Programs that people use, through the gateway.

mod curl;
mod grpc;
mod http2;
pub(crate) mod large;
mod tls;
mod websocket;
