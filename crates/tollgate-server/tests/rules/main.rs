//! Sources of rules and the rules service, over real sockets and real files.

mod access;
mod bundle;
mod data;
mod files;
mod follow_path;
mod follow_url;
mod limits;
mod support;
mod swap;
