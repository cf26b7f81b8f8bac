//! Rate limits as middleware.

pub mod arrival;
pub mod headers;
pub mod passage;
