//! The ways in. A door is parsing and rendering only: what it parses goes to the
//! [`Engine`](crate::engine::Engine), what it renders comes from there.

pub(crate) mod auth;
pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod resp;
