//! The gateway, through real sockets, in front of an upstream that keeps what it was sent.

mod passing;
mod support;
