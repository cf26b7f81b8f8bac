//! Compiles definitions: resolves names, compiles expressions, binds limits to counters.

pub(crate) mod attribute;
pub(crate) mod attribute_catalogue;
pub(crate) mod attributes_read;
pub(crate) mod compiler;
pub(crate) mod data;
pub(crate) mod domain;
pub(crate) mod door;
pub(crate) mod expr;
pub(crate) mod glob;
pub(crate) mod info;
pub(crate) mod lists;
pub(crate) mod overrides;
pub(crate) mod policy;
pub(crate) mod route;
pub(crate) mod schedule;
pub(crate) mod supply;
pub(crate) mod value;
