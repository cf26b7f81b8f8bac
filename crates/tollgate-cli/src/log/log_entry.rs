//! One request of an access log.

use std::borrow::Cow;

use tollgate::Time;
use tollgate_rules::{Request, Value};

use super::fields::FieldRename;

/// The prefix of attributes that are known only after the response.
const RESPONSE: &str = "response.";

/// A request of an access log and its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogEntry {
    pub(crate) at: Time,
    /// The attributes by their names in rules: `method`, `path`, `header.x-org`, `response.status`.
    fields: Vec<(Cow<'static, str>, Value<'static>)>,
}

impl LogEntry {
    pub(crate) fn new(at: Time) -> LogEntry {
        LogEntry { at, fields: Vec::with_capacity(10) }
    }

    /// Adds an attribute under its name in rules.
    pub(crate) fn set(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Value<'static>>,
    ) {
        self.fields.push((name.into(), value.into()));
    }

    /// Adds a field of a log, renamed if `renames` has it. In logs `-` or an empty text means that
    /// the value is unknown.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        value: impl Into<Value<'static>>,
        renames: &[FieldRename],
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

    /// Returns the value of an attribute.
    #[cfg(test)]
    pub(super) fn get(&self, name: &str) -> Option<&Value<'static>> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the request as rules see it on arrival, without its outcome.
    pub(crate) fn request(&self) -> Request<'_> {
        self.request_with(|name| !name.starts_with(RESPONSE))
    }

    /// Returns the request with its outcome, if the log has one.
    pub(crate) fn outcome(&self) -> Option<Request<'_>> {
        let known = self.fields.iter().any(|(name, _)| name.starts_with(RESPONSE));
        known.then(|| self.request_with(|_| true))
    }

    fn request_with(&self, include: impl Fn(&str) -> bool) -> Request<'_> {
        let mut request = Request::empty();
        for (name, value) in self.fields.iter().filter(|(name, _)| include(name)) {
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

/// Returns a value that borrows its text.
fn borrowed<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::Text(text) => Value::Text(Cow::Borrowed(text)),
        other => other.clone(),
    }
}
