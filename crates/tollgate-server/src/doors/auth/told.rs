//! What a proxy says of the request it asks about, and whether it is believed.
//!
//! Only trusted proxies are: those configured, or, if none are, whoever asks from this machine.
//! Others are taken for clients that ask about themselves.
//!
//! A proxy describes a request with `X-Original-*` (nginx) or with `X-Forwarded-*` (Traefik, Caddy),
//! and passes the client's own headers along. So a client could add the other kind: a request that
//! is described in two ways that differ is refused, and so is one described twice in one way.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName};
use hyper::http::request::Parts;
use ipnet::IpNet;
use tollgate::rules::rightmost_stranger;

use crate::rules_service::problem::Problem;

const FORWARDED_FOR: &str = "x-forwarded-for";
/// Headers by which proxies describe a request.
const DESCRIBING: [&str; 9] = [
    FORWARDED_FOR,
    "x-forwarded-host",
    "x-forwarded-method",
    "x-forwarded-proto",
    "x-forwarded-uri",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
];

/// What is known of the request that is asked about.
#[derive(Debug)]
pub(super) struct Told<'h> {
    pub(super) method: Cow<'h, str>,
    /// The path and the query.
    pub(super) target: Cow<'h, str>,
    pub(super) host: Option<Cow<'h, str>>,
    pub(super) scheme: Option<Cow<'h, str>>,
    pub(super) client: Option<IpAddr>,
    is_trusted: bool,
}

impl<'h> Told<'h> {
    pub(super) fn read(
        trusted: &[IpNet],
        peer: Option<SocketAddr>,
        head: &'h Parts,
    ) -> Result<Told<'h>, Problem> {
        let peer = peer.map(|peer| peer.ip().to_canonical());
        let own_host = || {
            let header = one(&head.headers, HOST.as_str());
            header.map(|host| host.or_else(|| head.uri.host().map(Cow::Borrowed)))
        };
        let own_target = || head.uri.path_and_query().map_or("/", |target| target.as_str());
        if !is_trusted(trusted, peer) {
            return Ok(Told {
                method: head.method.as_str().into(),
                target: own_target().into(),
                host: own_host()?,
                scheme: None,
                client: peer,
                is_trusted: false,
            });
        }
        let header = |name| one(&head.headers, name);
        let described = Description::read(&head.headers)?;
        let (url_host, target) = match described.target {
            Some(target) => split(target),
            None => (None, own_target().into()),
        };
        let host = match header("x-forwarded-host")?.or(url_host) {
            Some(host) => Some(host),
            None => own_host()?,
        };
        Ok(Told {
            method: described.method.unwrap_or_else(|| head.method.as_str().into()),
            target,
            host,
            scheme: header("x-forwarded-proto")?,
            client: client(trusted, peer, &head.headers),
            is_trusted: true,
        })
    }

    /// Whether rules see a header: what describes a request only if it is believed.
    pub(super) fn passes_on(&self, name: &HeaderName) -> bool {
        self.is_trusted || !DESCRIBING.contains(&name.as_str())
    }
}

fn is_trusted(trusted: &[IpNet], address: Option<IpAddr>) -> bool {
    match (address, trusted) {
        // Who can open a socket in the file system is on this machine.
        (None, _) => true,
        (Some(address), []) => address.is_loopback(),
        (Some(address), nets) => nets.iter().any(|net| net.contains(&address)),
    }
}

/// The client's address: the rightmost that is not a trusted proxy's. What stands left of that was
/// written by the client.
fn client(trusted: &[IpNet], peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
    let mut lines: Vec<&[u8]> =
        headers.get_all(FORWARDED_FOR).iter().map(|line| line.as_bytes()).collect();
    if lines.is_empty() {
        lines.extend(headers.get("x-real-ip").map(|line| line.as_bytes()));
    }
    let hops = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
    let hops = hops.map(|hop| std::str::from_utf8(hop).unwrap_or_default());
    rightmost_stranger(hops, |address| is_trusted(trusted, Some(address))).or(peer)
}

/// A method and a target, as one kind of headers says.
#[derive(Debug, Default)]
struct Description<'h> {
    method: Option<Cow<'h, str>>,
    target: Option<Cow<'h, str>>,
}

impl<'h> Description<'h> {
    fn read(headers: &'h HeaderMap) -> Result<Description<'h>, Problem> {
        let header = |name| one(headers, name);
        let original = Description {
            method: header("x-original-method")?,
            target: agree(header("x-original-uri")?, header("x-original-url")?)?,
        };
        let forwarded = Description {
            method: header("x-forwarded-method")?,
            target: header("x-forwarded-uri")?,
        };
        Ok(Description {
            method: agree(original.method, forwarded.method)?,
            target: agree(original.target, forwarded.target)?,
        })
    }
}

/// What is said once, or twice alike.
fn agree<'h>(
    one: Option<Cow<'h, str>>,
    other: Option<Cow<'h, str>>,
) -> Result<Option<Cow<'h, str>>, Problem> {
    let same = |one: &str, other: &str| one == other || path_of(one) == path_of(other);
    match (one, other) {
        (Some(one), Some(other)) if !same(&one, &other) => Err(Problem::bad_request(
            "the request is described in two ways that differ: have the proxy set or clear both \
             X-Original-* and X-Forwarded-*",
        )),
        (one, other) => Ok(one.or(other)),
    }
}

/// The only value of a header.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<Cow<'h, str>>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(_), Some(_)) => {
            Err(Problem::bad_request(format!("{name} is there twice: have the proxy set it")))
        }
        (value, _) => Ok(value.map(|value| String::from_utf8_lossy(value.as_bytes()))),
    }
}

/// The path and the query of a target that may be a whole URL.
fn path_of(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target;
    };
    rest.find(['/', '?']).map_or("/", |start| &rest[start..])
}

/// A target that may be a whole URL: its host, if it has one, its path and its query.
fn split(target: Cow<'_, str>) -> (Option<Cow<'_, str>>, Cow<'_, str>) {
    let path = path_of(&target).to_owned();
    if path == *target {
        return (None, target);
    }
    let host = target.split_once("://").map(|(_, rest)| {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        rest[..end].to_owned().into()
    });
    (host, path.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn head(headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/v1/auth?deny=403");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn told(trusted: &str, peer: &str, headers: &[(&'static str, &str)]) -> String {
        let trusted: Vec<IpNet> =
            trusted.split_whitespace().map(|net| net.parse().unwrap()).collect();
        let peer = Some(SocketAddr::new(peer.parse().unwrap(), 1));
        match Told::read(&trusted, peer, &head(headers)) {
            Ok(told) => {
                let host = told.host.unwrap_or_default();
                let client = told.client.unwrap();
                format!("{} {} {host} {client}", told.method, told.target)
            }
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn proxies_describe_requests_in_their_ways() {
        let nginx = [
            ("x-original-method", "POST"),
            ("x-original-uri", "/login?a=b"),
            ("x-forwarded-for", "203.0.113.7"),
            ("host", "shop.example"),
        ];
        assert_eq!(told("", "127.0.0.1", &nginx), "POST /login?a=b shop.example 203.0.113.7");
        let ingress = [("x-original-url", "https://shop.example/login")];
        assert_eq!(told("", "127.0.0.1", &ingress), "GET /login shop.example 127.0.0.1");
        let traefik = [
            ("x-forwarded-method", "PUT"),
            ("x-forwarded-uri", "/x"),
            ("x-forwarded-host", "h"),
            ("x-forwarded-for", "1.1.1.1, 203.0.113.7, 10.0.0.2"),
            ("host", "tollgate"),
        ];
        assert_eq!(told("10.0.0.0/8", "10.0.0.1", &traefik), "PUT /x h 203.0.113.7");
    }

    #[test]
    fn strangers_speak_for_themselves() {
        let forged = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-uri", "/free"),
            ("x-original-method", "GET"),
        ];
        let own = "GET /v1/auth?deny=403  198.51.100.1";
        assert_eq!(told("10.0.0.0/8", "198.51.100.1", &forged), own);
        assert_eq!(told("", "198.51.100.1", &forged), own);
        assert_eq!(
            told("10.0.0.0/8", "127.0.0.1", &forged).split(' ').next_back(),
            Some("127.0.0.1")
        );
    }

    #[test]
    fn a_client_cannot_add_a_second_description() {
        let both = [("x-original-uri", "/login"), ("x-forwarded-uri", "/free")];
        assert!(told("", "127.0.0.1", &both).contains("differ"));
        let twice = [("x-forwarded-uri", "/login"), ("x-forwarded-uri", "/free")];
        assert!(told("", "127.0.0.1", &twice).contains("twice"));
        let alike = [("x-original-url", "http://h/login"), ("x-forwarded-uri", "/login")];
        assert!(told("", "127.0.0.1", &alike).starts_with("GET /login"));
    }

    #[test]
    fn addresses_are_read_however_they_are_written() {
        for (text, expected) in [
            ("203.0.113.7:80", "203.0.113.7"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("nonsense", "127.0.0.1"),
            ("1.1.1.1, nonsense", "127.0.0.1"),
        ] {
            let said = told("", "127.0.0.1", &[("x-forwarded-for", text)]);
            assert_eq!(said.split(' ').next_back(), Some(expected), "{text}");
        }
    }
}
