//! The gateway, through real sockets, in front of an upstream that keeps what it was sent.

mod ending;
mod failing;
mod passing;
mod protocols;
mod sound;
mod support;
mod tunnels;
