//! The layer and the polite client, on real servers.

mod adapting;
mod axum_server;
mod bypass;
mod calls;
mod life;
mod polite;
mod serve;
mod settle;
mod waiting;
