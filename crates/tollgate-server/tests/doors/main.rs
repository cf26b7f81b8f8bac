//! Every door, through real sockets, with the real programs that knock at it.

mod admin;
mod auth;
mod grpc;
mod http;
mod net;
mod resp;
mod support;
