//! Follows a URL by polling, or a rules service by long polling.

mod fetch;
mod remote;

pub(super) use fetch::{RemoteContent, display};
pub(super) use remote::{RemoteSource, UrlSource};
