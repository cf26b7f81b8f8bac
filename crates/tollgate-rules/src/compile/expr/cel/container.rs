//! Containers for the interpreter's `in`: a list with networks and patterns, or the texts that a
//! regular expression matches.

use cel::ExecutionError;
use cel::common::traits::Container;
use cel::common::types::{CelBool, CelInt, CelString, CelUInt, DYN_TYPE, Type};
use cel::common::value::Val;
use regex::Regex;

use super::text;
use crate::Value;
use crate::compile::lists::List;

/// The right side of `in`.
#[derive(Clone, Copy, Debug)]
pub(super) enum CelContainer<'f> {
    List(&'f List),
    Pattern(&'f Regex),
}

impl Val for CelContainer<'_> {
    fn get_type(&self) -> &Type {
        &DYN_TYPE
    }

    fn cel_type() -> &'static Type {
        &DYN_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }
}

impl Container for CelContainer<'_> {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        let value = if let Some(known) = value.downcast_ref::<CelString>() {
            text(known.inner())
        } else if let Some(known) = value.downcast_ref::<CelInt>() {
            Value::Number(*known.inner())
        } else if let Some(known) = value.downcast_ref::<CelUInt>() {
            Value::Number(i64::try_from(*known.inner()).unwrap_or(i64::MAX))
        } else if let Some(known) = value.downcast_ref::<CelBool>() {
            Value::Flag(*known.inner())
        } else {
            return Err(ExecutionError::function_error("in", "not a plain value"));
        };
        Ok(match self {
            CelContainer::List(list) => list.contains(&value),
            CelContainer::Pattern(regex) => regex.is_match(&value.text()),
        })
    }
}
