//! `tollgate serve` as a process of its own, and the commands that ask it.

mod bench;
mod clients;
mod deferred;
mod deploy;
mod drain;
mod gateway;
mod killed;
mod ladders;
mod process;
mod settings;
mod start;
mod store;
#[path = "../support/mod.rs"]
mod support;
mod tls;
