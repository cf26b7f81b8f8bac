//! Reads YAML text into definitions, and reports every error with its span.

pub(crate) mod definition;
pub(crate) mod diagnostic;
pub(crate) mod document;
pub(crate) mod fault;
pub(crate) mod load;
pub(crate) mod request_words;
pub(crate) mod source;
pub(crate) mod suggest;
pub(crate) mod timestamp;
pub mod yaml;
