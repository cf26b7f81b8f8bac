//! A request as it arrives: its head, as rules see it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use http::header::HOST;
use http::request::Parts;
use smallvec::SmallVec;
use tollgate::Request;
use tollgate::rules::Value;

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
    peer: Option<IpAddr>,
    domain: Option<&'h str>,
    /// Values of headers, as text.
    headers: SmallVec<[(&'h str, Cow<'h, str>); 12]>,
    attributes: SmallVec<[(&'h str, Value<'h>); 2]>,
}

impl<'h> Arrival<'h> {
    /// What the head itself says.
    pub fn new(head: &'h Parts) -> Arrival<'h> {
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let headers = texts(&head.headers).collect();
        let attributes = SmallVec::new();
        Arrival { head, target, peer: None, domain: None, headers, attributes }
    }

    /// Who is at the other end of the connection.
    pub fn peer(self, peer: Option<IpAddr>) -> Arrival<'h> {
        Arrival { peer, ..self }
    }

    /// Whose rules apply; the only ones' without it.
    pub fn domain(self, domain: Option<&'h str>) -> Arrival<'h> {
        Arrival { domain, ..self }
    }

    /// Adds an attribute that is not in the head.
    pub fn attribute(mut self, name: &'h str, value: impl Into<Value<'h>>) -> Arrival<'h> {
        self.attributes.push((name, value.into()));
        self
    }

    /// The request rules see.
    pub fn request(&self) -> Request<'_> {
        let mut request = Request::new(self.head.method.as_str(), self.target);
        let host = self.head.uri.host().or_else(|| {
            let host = self.headers.iter().find(|(name, _)| *name == HOST.as_str());
            host.map(|(_, value)| &**value)
        });
        if let Some(host) = host {
            request = request.host(host);
        }
        if let Some(peer) = self.peer {
            request = request.peer(peer);
        }
        if let Some(domain) = self.domain {
            request = request.domain(domain);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
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
            attributes: self.attributes.iter().map(owned).collect(),
        }
    }
}

/// An [`Arrival`] that owns what it says.
#[derive(Clone, Debug)]
pub struct Kept {
    head: Parts,
    peer: Option<IpAddr>,
    domain: Option<String>,
    attributes: Vec<(String, Value<'static>)>,
}

impl Kept {
    /// What arrived.
    pub fn arrival(&self) -> Arrival<'_> {
        let arrival = Arrival::new(&self.head).peer(self.peer).domain(self.domain.as_deref());
        self.attributes
            .iter()
            .fold(arrival, |arrival, (name, value)| arrival.attribute(name, value.clone()))
    }
}

/// Header fields as text. What is no text is told apart from what is only as far as that goes.
pub(crate) fn texts(headers: &HeaderMap) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
}
