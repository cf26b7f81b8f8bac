//! The domain and attributes of a request, in a form that can be kept until it is settled.

use std::borrow::Cow;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_rules::{Request, Value};

/// A domain and attributes, borrowed from a caller or owned.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestAttributes<'a> {
    pub(crate) domain: Option<Cow<'a, str>>,
    pub(crate) attributes: SmallVec<[(Cow<'a, str>, Value<'a>); 8]>,
}

impl RequestAttributes<'_> {
    /// Returns the request that rules see. Its outcome will not be reported.
    pub(crate) fn request(&self, cost: u64) -> Request<'_> {
        self.to_request(cost).unreported()
    }

    /// Returns the request that rules see, to be settled later.
    pub(crate) fn reservation(&self, cost: u64, open: Option<Duration>) -> Request<'_> {
        self.to_request(cost).to_be_settled(open)
    }

    fn to_request(&self, cost: u64) -> Request<'_> {
        let mut request = Request::empty().cost(cost);
        if let Some(domain) = &self.domain {
            request = request.domain(domain);
        }
        for (name, value) in &self.attributes {
            request = request.attribute(name, borrowed(value));
        }
        request
    }

    pub(crate) fn into_owned(self) -> RequestAttributes<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let attributes = self.attributes.into_iter();
        RequestAttributes {
            domain: self.domain.map(own),
            attributes: attributes.map(|(name, value)| (own(name), value.into_owned())).collect(),
        }
    }

    /// Returns the approximate memory use, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let text = |value: &Value<'_>| match value {
            Value::Text(text) => text.len(),
            _ => 0,
        };
        let attributes = self.attributes.iter();
        self.domain.as_ref().map_or(0, |domain| domain.len())
            + attributes.map(|(name, value)| 64 + name.len() + text(value)).sum::<usize>()
    }
}

/// Borrows a value. Well-known attributes are recognized by borrowed text only.
fn borrowed<'v>(value: &'v Value<'_>) -> Value<'v> {
    match value {
        Value::Text(text) => Value::Text(Cow::Borrowed(text)),
        Value::Number(number) => Value::Number(*number),
        Value::Flag(flag) => Value::Flag(*flag),
        Value::Ip(address) => Value::Ip(*address),
        other => Value::Text(Cow::Owned(other.text().into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_rules::RuleLimiter;

    #[test]
    fn an_owned_text_is_well_known_too() {
        let rules = "rules: [{ name: login, route: POST /login, limit: 1/h }]".parse().unwrap();
        let limiter = RuleLimiter::new(rules);
        let attributes = [(Cow::Borrowed("route"), Value::from("POST /login".to_owned()))];
        let request_attributes =
            RequestAttributes { domain: None, attributes: attributes.into_iter().collect() };
        assert_eq!(limiter.decide_now(&request_attributes.request(1)).rule(), Some("login"));
        let owned = request_attributes.into_owned();
        assert!(!limiter.decide_now(&owned.request(1)).allowed);
        assert!(owned.weight() >= 16);
    }
}
