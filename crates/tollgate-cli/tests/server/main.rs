//! `tollgate serve` as a separate process, and the commands that call it.

mod bench;
mod clients;
mod deferred;
mod deploy;
mod drain;
mod gateway;
mod import_nginx;
mod killed;
mod ladders;
mod process;
mod settings;
mod snapshot;
mod start;
mod store;
#[path = "../support/mod.rs"]
mod support;
mod tls;
