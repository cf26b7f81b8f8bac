//! What a caller says of a request, in a form that can be kept until it is settled.

use std::borrow::Cow;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate::Request;
use tollgate::rules::Value;

/// A domain and attributes, borrowed from whoever asks or kept for later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) domain: Option<Cow<'a, str>>,
    pub(crate) attributes: SmallVec<[(Cow<'a, str>, Value<'a>); 8]>,
}

impl Asked<'_> {
    /// The request rules see. Nobody will say how it went.
    pub(crate) fn request(&self, cost: u64) -> Request<'_> {
        self.described(cost).unreported()
    }

    /// The same, to be settled later.
    pub(crate) fn reservation(&self, cost: u64, open: Option<Duration>) -> Request<'_> {
        self.described(cost).to_be_settled(open)
    }

    fn described(&self, cost: u64) -> Request<'_> {
        let mut request = Request::empty().cost(cost);
        if let Some(domain) = &self.domain {
            request = request.domain(domain);
        }
        for (name, value) in &self.attributes {
            request = request.attribute(name, borrowed(value));
        }
        request
    }

    pub(crate) fn into_owned(self) -> Asked<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let attributes = self.attributes.into_iter();
        Asked {
            domain: self.domain.map(own),
            attributes: attributes.map(|(name, value)| (own(name), value.into_owned())).collect(),
        }
    }

    /// About how many bytes keeping it takes.
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

/// Well-known attributes are told by their borrowed text, so a text is always lent.
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
    use tollgate::Limiter;

    #[test]
    fn a_text_is_well_known_whoever_owns_it() {
        let rules = "rules: [{ name: login, route: POST /login, limit: 1/h }]".parse().unwrap();
        let limiter = Limiter::from_rules(rules);
        let attributes = [(Cow::Borrowed("route"), Value::from("POST /login".to_owned()))];
        let asked = Asked { domain: None, attributes: attributes.into_iter().collect() };
        assert_eq!(limiter.decide(&asked.request(1)).rule(), Some("login"));
        let kept = asked.into_owned();
        assert!(!limiter.decide(&kept.request(1)).allowed);
        assert!(kept.weight() >= 16);
    }
}
