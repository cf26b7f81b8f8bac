//! One request as a log tells of it.

use std::borrow::Cow;

use tollgate::rules::Value;
use tollgate::{Request, Time};

use super::fields::Rename;

/// What names of attributes that are only known in the end begin with.
const RESPONSE: &str = "response.";

/// A request and when it was made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) at: Time,
    /// Named as rules name them: `method`, `path`, `header.x-org`, `response.status`.
    fields: Vec<(Cow<'static, str>, Value<'static>)>,
}

impl Entry {
    pub(crate) fn new(at: Time) -> Entry {
        Entry { at, fields: Vec::with_capacity(10) }
    }

    /// Adds a field under the name rules have for it.
    pub(crate) fn set(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Value<'static>>,
    ) {
        self.fields.push((name.into(), value.into()));
    }

    /// Adds a field of a log, under another name if `renames` say so. `-` and nothing at all are
    /// how logs say that something is not known.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        value: impl Into<Value<'static>>,
        renames: &[Rename],
    ) {
        let value = value.into();
        if matches!(&value, Value::Text(text) if text.is_empty() || text == "-") {
            return;
        }
        match renames.iter().find(|rename| rename.field == name) {
            Some(rename) => self.set(rename.attribute.clone(), value),
            None => self.set(name, value),
        }
    }

    /// The value of a field.
    #[cfg(test)]
    pub(super) fn get(&self, name: &str) -> Option<&Value<'static>> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The request as rules see it when it comes, its outcome not yet known.
    pub(crate) fn request(&self) -> Request<'_> {
        self.request_with(|name| !name.starts_with(RESPONSE))
    }

    /// The same once its outcome is known, if the log tells any.
    pub(crate) fn outcome(&self) -> Option<Request<'_>> {
        let known = self.fields.iter().any(|(name, _)| name.starts_with(RESPONSE));
        known.then(|| self.request_with(|_| true))
    }

    fn request_with(&self, wanted: impl Fn(&str) -> bool) -> Request<'_> {
        let mut request = Request::empty();
        for (name, value) in self.fields.iter().filter(|(name, _)| wanted(name)) {
            let header = name.strip_prefix("header.");
            request = match (&**name, header, value, value.number()) {
                (_, Some(header), Value::Text(text), _) => request.header(header, text),
                ("cost", _, _, Some(cost)) => request.cost(u64::try_from(cost).unwrap_or(0)),
                ("domain", _, Value::Text(text), _) => request.domain(text),
                _ => request.attribute(name, borrowed(value)),
            };
        }
        request
    }
}

/// The same value, which a request may keep without copying its text.
fn borrowed<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::Text(text) => Value::Text(Cow::Borrowed(text)),
        other => other.clone(),
    }
}
