//! The head of an HTTP request, as rules see it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use smallvec::SmallVec;
use tollgate_rules::{HeaderSource, Request, Value};

/// The head of a request and what a server knows in addition.
///
/// ```
/// use tollgate_rules::RuleLimiter;
/// use tollgate_tower::request_head::RequestHead;
///
/// let limiter = RuleLimiter::new(r#"
/// rules: [{ name: api, per: 'header["x-org"]', limit: 1/min }]
/// "#.parse()?);
/// let (head, ()) = http::Request::get("/orders").header("x-org", "acme").body(())?.into_parts();
/// let request_head = RequestHead::new(&head);
/// assert!(limiter.decide_now(&request_head.request()).allowed);
/// assert!(!limiter.decide_now(&request_head.request()).allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestHead<'h> {
    head: &'h Parts,
    target: &'h str,
    headers: HeaderLookup<'h>,
    peer: Option<IpAddr>,
    domain: Option<&'h str>,
    trusted_proxies: &'h [IpNet],
    patience: Duration,
    attributes: SmallVec<[(&'h str, Value<'h>); 2]>,
    unknown: &'static [&'static str],
}

impl<'h> RequestHead<'h> {
    /// Creates a request head without further knowledge.
    pub fn new(head: &'h Parts) -> RequestHead<'h> {
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        RequestHead {
            head,
            target,
            headers: HeaderLookup(&head.headers),
            peer: None,
            domain: None,
            trusted_proxies: &[],
            patience: Duration::ZERO,
            attributes: SmallVec::new(),
            unknown: &[],
        }
    }

    /// Sets the address of the client's connection.
    pub fn peer(self, peer: Option<IpAddr>) -> RequestHead<'h> {
        RequestHead { peer, ..self }
    }

    pub(crate) fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// Sets the domain whose rules apply; not needed if there is only one.
    pub fn domain(self, domain: Option<&'h str>) -> RequestHead<'h> {
        RequestHead { domain, ..self }
    }

    /// Sets the proxies whose `X-Forwarded-For` is trusted, in addition to those that rules name.
    pub fn trusted_proxies(self, trusted_proxies: &'h [IpNet]) -> RequestHead<'h> {
        RequestHead { trusted_proxies, ..self }
    }

    /// Sets how long the request may wait instead of being refused.
    pub fn patience(self, patience: Duration) -> RequestHead<'h> {
        RequestHead { patience, ..self }
    }

    /// Adds an attribute that is not in the head.
    pub fn attribute(mut self, name: &'h str, value: impl Into<Value<'h>>) -> RequestHead<'h> {
        self.attributes.push((name, value.into()));
        self
    }

    /// Sets the names whose values are not completely known: see [`Request::unknown`].
    pub fn unknown(self, unknown: &'static [&'static str]) -> RequestHead<'h> {
        RequestHead { unknown, ..self }
    }

    /// Returns the request that rules see.
    pub fn request(&self) -> Request<'_> {
        let mut request = Request::new(self.head.method.as_str(), self.target)
            .headers_of(&self.headers)
            .trusted_proxies(self.trusted_proxies)
            .patience(self.patience)
            .unknown(self.unknown);
        // Without it, rules look the host up among the headers.
        if let Some(host) = self.head.uri.host() {
            request = request.host(host);
        }
        if let Some(peer) = self.peer {
            request = request.peer(peer);
        }
        if let Some(domain) = self.domain {
            request = request.domain(domain);
        }
        for (name, value) in &self.attributes {
            request = request.attribute(name, value.clone());
        }
        request
    }

    /// Returns an owned copy that can be kept until the outcome is known.
    pub fn to_owned_head(&self) -> OwnedRequestHead {
        let mut head = http::Request::new(()).into_parts().0;
        head.method.clone_from(&self.head.method);
        head.uri.clone_from(&self.head.uri);
        head.headers.clone_from(&self.head.headers);
        let owned =
            |(name, value): &(&str, Value<'_>)| ((*name).to_owned(), value.clone().into_owned());
        OwnedRequestHead {
            head,
            peer: self.peer,
            domain: self.domain.map(str::to_owned),
            trusted_proxies: self.trusted_proxies.to_vec(),
            attributes: self.attributes.iter().map(owned).collect(),
            unknown: self.unknown,
        }
    }
}

/// A [`RequestHead`] that owns its data.
#[derive(Clone, Debug)]
pub struct OwnedRequestHead {
    head: Parts,
    peer: Option<IpAddr>,
    domain: Option<String>,
    trusted_proxies: Vec<IpNet>,
    attributes: Vec<(String, Value<'static>)>,
    pub(crate) unknown: &'static [&'static str],
}

impl OwnedRequestHead {
    /// Returns the request head.
    pub fn as_request_head(&self) -> RequestHead<'_> {
        let request_head = RequestHead::new(&self.head)
            .peer(self.peer)
            .domain(self.domain.as_deref())
            .trusted_proxies(&self.trusted_proxies)
            .unknown(self.unknown);
        self.attributes.iter().fold(request_head, |request_head, (name, value)| {
            request_head.attribute(name, value.clone())
        })
    }
}

/// The header fields of a request, looked up when a rule asks for one.
#[derive(Clone, Copy, Debug)]
struct HeaderLookup<'h>(&'h HeaderMap);

impl HeaderSource for HeaderLookup<'_> {
    fn each<'f>(&'f self, name: &str, take: &mut dyn FnMut(Cow<'f, str>)) {
        self.0.get_all(name).iter().for_each(|value| take(text(value)));
    }
}

/// Returns the header fields as text.
pub(crate) fn texts(headers: &HeaderMap) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    headers.iter().map(|(name, value)| (name.as_str(), text(value)))
}

/// Returns a header value as text. Bytes that are not UTF-8 become U+FFFD and two digits each, and
/// so does a U+FFFD that was sent: two values have the same text only if they are equal.
pub(crate) fn text(value: &HeaderValue) -> Cow<'_, str> {
    const UNREADABLE: char = char::REPLACEMENT_CHARACTER;
    if let Ok(text) = value.to_str() {
        return Cow::Borrowed(text);
    }
    let bytes = value.as_bytes();
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains(UNREADABLE)
    {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::new();
    let spell = |bytes: &[u8], spelled: &mut String| {
        for byte in bytes {
            spelled.push(UNREADABLE);
            spelled.push_str(&format!("{byte:02X}"));
        }
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                UNREADABLE => spell(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut spelled),
                character => spelled.push(character),
            }
        }
        spell(chunk.invalid(), &mut spelled);
    }
    Cow::Owned(spelled)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_that_are_not_utf8_stay_distinct() {
        let of = |bytes: &'static [u8]| text(&HeaderValue::from_bytes(bytes).unwrap()).into_owned();
        assert_eq!(of("caf\u{e9}".as_bytes()), "caf\u{e9}");
        assert_eq!(of(b"caf\xe9"), "caf\u{fffd}E9");
        let alike: [&[u8]; 4] = [b"\xff", b"\xfe", "\u{fffd}".as_bytes(), "\u{fffd}FF".as_bytes()];
        let texts: HashMap<_, _> = alike.iter().map(|bytes| (of(bytes), bytes)).collect();
        assert_eq!(texts.len(), alike.len(), "{texts:?}");
    }

    proptest! {
        #[test]
        fn different_values_have_different_texts(
            left in prop::collection::vec(prop_oneof![Just(0xEF_u8), Just(0xBF), Just(0xBD), 0x80..=0xFF_u8, 0x30..0x47_u8], 0..8),
            right in prop::collection::vec(prop_oneof![Just(0xEF_u8), Just(0xBF), Just(0xBD), 0x80..=0xFF_u8, 0x30..0x47_u8], 0..8),
        ) {
            let of = |bytes: &[u8]| text(&HeaderValue::from_bytes(bytes).unwrap()).into_owned();
            prop_assert_eq!(left == right, of(&left) == of(&right));
        }
    }
}
