//! Following a URL: asked at intervals whether anything changed, or, if it is a rules service,
//! asked to answer as soon as something does.

mod fetch;
mod remote;

pub(super) use fetch::{Content, display};
pub(super) use remote::{Remote, UrlSource};
