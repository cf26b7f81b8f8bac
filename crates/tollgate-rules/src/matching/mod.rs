//! Matches a request to the rules that apply to it, and collects their checks.

pub(crate) mod address;
pub(crate) mod attribute_word;
pub(crate) mod key;
pub(crate) mod key_hasher;
pub(crate) mod matcher;
pub(crate) mod named_values;
pub(crate) mod path;
pub(crate) mod request;
pub(crate) mod request_facts;
pub(crate) mod request_path;
pub(crate) mod rule_checks;
