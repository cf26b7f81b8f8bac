//! Shares the counters of tollgate through Redis or Valkey.
//!
//! Every decision is one round trip: the states are charged and judged where they are, in Lua that
//! mirrors the engine, by the server's clock.

mod fleet;
mod options;
mod script;
mod server_clock;
mod store;
mod strict;
mod trouble;
mod words;

pub use fleet::{GroupHealth, Health, ServerTrouble};
pub use options::Options;
pub use store::RedisStore;
pub use trouble::ConnectError;
