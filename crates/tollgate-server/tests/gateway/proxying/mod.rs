//! The gateway as a proxy: what it must hand on unchanged, next to nginx where that matters.

mod bodies;
mod heads;
mod interim;
mod queries;
mod real;
mod retries;
