//! Tests of all doors through real sockets, with real client programs.

mod admin;
mod auth;
mod grpc;
mod http;
mod net;
mod resp;
mod support;
