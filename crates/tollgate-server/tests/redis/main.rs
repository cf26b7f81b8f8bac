//! Servers with counters in Redis: shared counters, required rights, and failures of Redis.

mod access;
mod doors;
mod failure;
mod secrets;
mod settling;
mod support;
