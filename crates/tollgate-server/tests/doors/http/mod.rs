//! Tests of the HTTP door through real sockets.

mod attributes;
mod body_memory;
mod bounds;
mod browsers;
mod calls;
pub(crate) mod client;
mod hostile;
mod http2;
mod idle_connections;
mod json;
mod listeners;
mod openapi;
mod reservation_bounds;
mod reservations;
mod roles;
