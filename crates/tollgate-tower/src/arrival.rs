//! A request as it arrives: its head, as rules see it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use smallvec::SmallVec;
use tollgate::Request;
use tollgate::rules::{HeaderSource, Value};

/// The head of a request with what is known beside it.
///
/// ```
/// use tollgate::Limiter;
/// use tollgate_tower::arrival::Arrival;
///
/// let limiter = Limiter::from_rules(r#"
/// rules: [{ name: api, per: 'header["x-org"]', limit: 1/min }]
/// "#.parse()?);
/// let (head, ()) = http::Request::get("/orders").header("x-org", "acme").body(())?.into_parts();
/// let arrival = Arrival::new(&head);
/// assert!(limiter.decide(&arrival.request()).allowed);
/// assert!(!limiter.decide(&arrival.request()).allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Arrival<'h> {
    head: &'h Parts,
    target: &'h str,
    headers: Fields<'h>,
    peer: Option<IpAddr>,
    domain: Option<&'h str>,
    trusted_proxies: &'h [IpNet],
    patience: Duration,
    attributes: SmallVec<[(&'h str, Value<'h>); 2]>,
    unknown: &'static [&'static str],
}

impl<'h> Arrival<'h> {
    /// What the head itself says.
    pub fn new(head: &'h Parts) -> Arrival<'h> {
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        Arrival {
            head,
            target,
            headers: Fields(&head.headers),
            peer: None,
            domain: None,
            trusted_proxies: &[],
            patience: Duration::ZERO,
            attributes: SmallVec::new(),
            unknown: &[],
        }
    }

    /// Who is at the other end of the connection.
    pub fn peer(self, peer: Option<IpAddr>) -> Arrival<'h> {
        Arrival { peer, ..self }
    }

    pub(crate) fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// Whose rules apply; the only ones' without it.
    pub fn domain(self, domain: Option<&'h str>) -> Arrival<'h> {
        Arrival { domain, ..self }
    }

    /// Proxies whose word is taken for who is behind them, besides those that rules name.
    pub fn trusted_proxies(self, trusted_proxies: &'h [IpNet]) -> Arrival<'h> {
        Arrival { trusted_proxies, ..self }
    }

    /// How long it may be held back where it would be refused otherwise.
    pub fn patience(self, patience: Duration) -> Arrival<'h> {
        Arrival { patience, ..self }
    }

    /// Adds an attribute that is not in the head.
    pub fn attribute(mut self, name: &'h str, value: impl Into<Value<'h>>) -> Arrival<'h> {
        self.attributes.push((name, value.into()));
        self
    }

    /// Of these names no more is known than was said: see [`Request::unknown`].
    pub fn unknown(self, unknown: &'static [&'static str]) -> Arrival<'h> {
        Arrival { unknown, ..self }
    }

    /// The request rules see.
    pub fn request(&self) -> Request<'_> {
        let mut request = Request::new(self.head.method.as_str(), self.target)
            .headers_of(&self.headers)
            .trusted_proxies(self.trusted_proxies)
            .patience(self.patience)
            .unknown(self.unknown);
        // Otherwise it is looked up among the headers.
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

    /// The same in a form that can be kept until the outcome is known.
    pub fn keep(&self) -> Kept {
        let mut head = http::Request::new(()).into_parts().0;
        head.method.clone_from(&self.head.method);
        head.uri.clone_from(&self.head.uri);
        head.headers.clone_from(&self.head.headers);
        let owned =
            |(name, value): &(&str, Value<'_>)| ((*name).to_owned(), value.clone().into_owned());
        Kept {
            head,
            peer: self.peer,
            domain: self.domain.map(str::to_owned),
            trusted_proxies: self.trusted_proxies.to_vec(),
            attributes: self.attributes.iter().map(owned).collect(),
            unknown: self.unknown,
        }
    }
}

/// An [`Arrival`] that owns what it says.
#[derive(Clone, Debug)]
pub struct Kept {
    head: Parts,
    peer: Option<IpAddr>,
    domain: Option<String>,
    trusted_proxies: Vec<IpNet>,
    attributes: Vec<(String, Value<'static>)>,
    pub(crate) unknown: &'static [&'static str],
}

impl Kept {
    /// What arrived.
    pub fn arrival(&self) -> Arrival<'_> {
        let arrival = Arrival::new(&self.head)
            .peer(self.peer)
            .domain(self.domain.as_deref())
            .trusted_proxies(&self.trusted_proxies)
            .unknown(self.unknown);
        self.attributes
            .iter()
            .fold(arrival, |arrival, (name, value)| arrival.attribute(name, value.clone()))
    }
}

/// The header fields of a request, looked up when a rule asks for one.
#[derive(Clone, Copy, Debug)]
struct Fields<'h>(&'h HeaderMap);

impl HeaderSource for Fields<'_> {
    fn each<'f>(&'f self, name: &str, take: &mut dyn FnMut(Cow<'f, str>)) {
        self.0.get_all(name).iter().for_each(|value| take(text(value)));
    }
}

/// Header fields as text.
pub(crate) fn texts(headers: &HeaderMap) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    headers.iter().map(|(name, value)| (name.as_str(), text(value)))
}

/// A value as text. Bytes that are none become U+FFFD and two digits each, and so does a U+FFFD
/// that was sent: two values have one text only if they are the same.
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
    fn what_is_no_text_stays_told_apart() {
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
