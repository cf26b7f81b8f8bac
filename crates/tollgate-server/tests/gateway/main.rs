//! The gateway, through real sockets, in front of an upstream that keeps what it was sent.

mod adapting;
mod aiming;
mod bypass;
mod clients;
mod deferred;
mod ending;
mod failing;
mod frames;
mod identity;
mod life;
mod neighbour;
mod nginx;
mod passing;
#[path = "../doors/support/programs.rs"]
mod programs;
mod protocols;
mod proxying;
mod settle;
mod shed;
mod slow;
mod smuggling;
mod sound;
mod strict;
mod support;
mod tunnels;
mod waiting;

/// How long anything in a test may take before it is called a failure.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(30);
