//! The request that a proxy describes in headers, and whether the proxy is trusted.
//!
//! Only the headers of trusted proxies count: those configured or, if none are, any on this machine.
//! A description by any other peer is refused: without it, rules on routes would match nothing, and
//! everything would pass. A peer without a description is a client whose own request is decided.
//!
//! A proxy describes a request with `X-Original-*` (nginx) or with `X-Forwarded-*` (Traefik, Caddy),
//! and passes the client's own headers along. So a client could add the other kind. A request with
//! two descriptions that differ is therefore refused, and so is one with a repeated header, and one
//! whose target two servers could read differently: the proxy forwards it as it is.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::HOST;
use hyper::http::request::Parts;
use ipnet::IpNet;
use tollgate_rules::rightmost_untrusted;

use crate::doors::gateway::forward_target::forward_target;
use crate::problem::Problem;

const FORWARDED_FOR: &str = "x-forwarded-for";
/// The headers in which proxies describe a request.
const DESCRIPTION_HEADERS: [&str; 9] = [
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

/// The request to decide, as a trusted proxy describes it or as the client sent it.
#[derive(Debug)]
pub(super) struct ForwardedRequest<'h> {
    pub(super) method: Cow<'h, str>,
    /// The path and the query.
    pub(super) target: Cow<'h, str>,
    pub(super) host: Option<Cow<'h, str>>,
    pub(super) scheme: Option<Cow<'h, str>>,
    pub(super) client: Option<IpAddr>,
    /// Whether the target was described.
    pub(super) is_described: bool,
}

/// The reason why a description is refused.
#[derive(Debug)]
pub(super) enum DescriptionError {
    /// The peer that describes the request is no trusted proxy.
    Untrusted(IpAddr),
    /// Servers could read the description differently.
    Ambiguous(Problem),
}

impl From<Problem> for DescriptionError {
    fn from(problem: Problem) -> DescriptionError {
        DescriptionError::Ambiguous(problem)
    }
}

impl<'h> ForwardedRequest<'h> {
    pub(super) fn read(
        trusted: &[IpNet],
        peer: Option<SocketAddr>,
        head: &'h Parts,
    ) -> Result<ForwardedRequest<'h>, DescriptionError> {
        let peer = peer.map(|peer| peer.ip().to_canonical());
        let own_host = || {
            let header = single(&head.headers, HOST.as_str());
            header.map(|host| host.or_else(|| head.uri.host().map(Cow::Borrowed)))
        };
        let own_target = || head.uri.path_and_query().map_or("/", |target| target.as_str());
        if let Some(address) = peer.filter(|_| !is_trusted(trusted, peer)) {
            if DESCRIPTION_HEADERS.iter().any(|name| head.headers.contains_key(*name)) {
                return Err(DescriptionError::Untrusted(address));
            }
            return Ok(ForwardedRequest {
                method: head.method.as_str().into(),
                target: own_target().into(),
                host: own_host()?,
                scheme: None,
                client: peer,
                is_described: false,
            });
        }
        let header = |name| single(&head.headers, name);
        let described = RequestDescription::read(&head.headers)?;
        let is_described = described.target.is_some();
        let (url_host, target) = match described.target {
            Some(target) => split(target),
            None => (None, own_target().into()),
        };
        check_target(&target)?;
        let method = described.method.unwrap_or_else(|| head.method.as_str().into());
        if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
            return Err(Problem::bad_request("the method is not in capitals").into());
        }
        let host = match header("x-forwarded-host")?.or(url_host) {
            Some(host) => Some(host),
            None => own_host()?,
        };
        Ok(ForwardedRequest {
            method,
            target,
            host,
            scheme: header("x-forwarded-proto")?,
            client: client(trusted, peer, &head.headers),
            is_described,
        })
    }
}

/// Checks that every server reads a target as rules do.
///
/// A gateway would forward the target in one spelling; a proxy may forward it as it is. So dots are
/// refused as well: clients resolve them, and servers differ in whether they do.
fn check_target(target: &str) -> Result<(), Problem> {
    if let Err(error) = forward_target(target) {
        return Err(Problem::bad_request(error.to_string()));
    }
    let path = target.split('?').next().unwrap_or_default();
    let is_dots = |segment: &str| {
        matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
    };
    if path.split(['/', '\\']).any(is_dots) {
        return Err(Problem::bad_request("the path has segments of dots"));
    }
    match target.contains('#') {
        true => Err(Problem::bad_request("the target has a fragment")),
        false => Ok(()),
    }
}

fn is_trusted(trusted: &[IpNet], address: Option<IpAddr>) -> bool {
    match (address, trusted) {
        // A Unix socket has no address, and only this machine can reach it.
        (None, _) => true,
        (Some(address), []) => address.is_loopback(),
        (Some(address), nets) => nets.iter().any(|net| net.contains(&address)),
    }
}

/// Returns the client's address: the rightmost one that no trusted proxy has.
///
/// The client itself may have written any address further left.
fn client(trusted: &[IpNet], peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
    let mut lines: Vec<&[u8]> =
        headers.get_all(FORWARDED_FOR).iter().map(|line| line.as_bytes()).collect();
    if lines.is_empty() {
        lines.extend(headers.get("x-real-ip").map(|line| line.as_bytes()));
    }
    let hops = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
    let hops = hops.map(|hop| std::str::from_utf8(hop).unwrap_or_default());
    rightmost_untrusted(hops, |address| is_trusted(trusted, Some(address))).or(peer)
}

/// The method and the target of one kind of headers.
#[derive(Debug, Default)]
struct RequestDescription<'h> {
    method: Option<Cow<'h, str>>,
    target: Option<Cow<'h, str>>,
}

impl<'h> RequestDescription<'h> {
    fn read(headers: &'h HeaderMap) -> Result<RequestDescription<'h>, Problem> {
        let header = |name| single(headers, name);
        let original = RequestDescription {
            method: header("x-original-method")?,
            target: agree(header("x-original-uri")?, header("x-original-url")?)?,
        };
        let forwarded = RequestDescription {
            method: header("x-forwarded-method")?,
            target: header("x-forwarded-uri")?,
        };
        Ok(RequestDescription {
            method: agree(original.method, forwarded.method)?,
            target: agree(original.target, forwarded.target)?,
        })
    }
}

/// Returns the value of two headers that must not contradict each other.
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

/// Returns the value of a header that must not be repeated.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<Cow<'h, str>>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(_), Some(_)) => {
            Err(Problem::bad_request(format!("{name} is there twice: have the proxy set it")))
        }
        (value, _) => Ok(value.map(|value| String::from_utf8_lossy(value.as_bytes()))),
    }
}

/// Returns the path and the query of a target, which may be a whole URL.
fn path_of(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target;
    };
    rest.find(['/', '?']).map_or("/", |start| &rest[start..])
}

/// Splits a target, which may be a whole URL, into its host and its path with the query.
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

    fn describe(trusted: &str, peer: &str, headers: &[(&'static str, &str)]) -> String {
        let trusted: Vec<IpNet> =
            trusted.split_whitespace().map(|net| net.parse().unwrap()).collect();
        let peer = Some(SocketAddr::new(peer.parse().unwrap(), 1));
        match ForwardedRequest::read(&trusted, peer, &head(headers)) {
            Ok(request) => {
                let host = request.host.unwrap_or_default();
                let client = request.client.unwrap();
                format!("{} {} {host} {client}", request.method, request.target)
            }
            Err(DescriptionError::Untrusted(address)) => format!("untrusted {address}"),
            Err(DescriptionError::Ambiguous(problem)) => problem.to_string(),
        }
    }

    #[test]
    fn the_headers_of_all_supported_proxies_are_read() {
        let nginx = [
            ("x-original-method", "POST"),
            ("x-original-uri", "/login?a=b"),
            ("x-forwarded-for", "203.0.113.7"),
            ("host", "shop.example"),
        ];
        assert_eq!(describe("", "127.0.0.1", &nginx), "POST /login?a=b shop.example 203.0.113.7");
        let ingress = [("x-original-url", "https://shop.example/login")];
        assert_eq!(describe("", "127.0.0.1", &ingress), "GET /login shop.example 127.0.0.1");
        let traefik = [
            ("x-forwarded-method", "PUT"),
            ("x-forwarded-uri", "/x"),
            ("x-forwarded-host", "h"),
            ("x-forwarded-for", "1.1.1.1, 203.0.113.7, 10.0.0.2"),
            ("host", "tollgate"),
        ];
        assert_eq!(describe("10.0.0.0/8", "10.0.0.1", &traefik), "PUT /x h 203.0.113.7");
    }

    #[test]
    fn the_headers_of_untrusted_peers_are_refused() {
        let forged = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-uri", "/free"),
            ("x-original-method", "GET"),
        ];
        for header in forged {
            let untrusted = "untrusted 198.51.100.1";
            assert_eq!(describe("10.0.0.0/8", "198.51.100.1", &[header]), untrusted);
            assert_eq!(describe("", "198.51.100.1", &[header]), untrusted);
        }
        assert_eq!(describe("10.0.0.0/8", "127.0.0.1", &forged), "untrusted 127.0.0.1");
        let own = "GET /v1/auth?deny=403  198.51.100.1";
        assert_eq!(describe("", "198.51.100.1", &[]), own, "a client that asks for itself");
    }

    #[test]
    fn targets_that_servers_read_differently_are_refused() {
        for target in [
            "/x/../login",
            "/x/%2E%2e/login",
            "/x\\..\\login",
            "/x/..;/login",
            "/x/..%2flogin",
            "/./a",
            "/a%00",
            "/a%",
            "/a#b",
            "a",
            "/%c0%ae%c0%ae/a",
        ] {
            let described = describe("", "127.0.0.1", &[("x-forwarded-uri", target)]);
            assert!(!described.starts_with("GET "), "{target}: {described}");
        }
        for target in
            ["/", "/a/", "//a", "/a%2Fb", "/a;x", "/A?b=../c", "/...", "/.well-known", "*"]
        {
            let described = describe("", "127.0.0.1", &[("x-original-uri", target)]);
            assert!(described.starts_with("GET "), "{target}: {described}");
        }
        assert!(describe("", "127.0.0.1", &[("x-forwarded-method", "post")]).contains("capitals"));
    }

    #[test]
    fn a_client_cannot_add_a_second_description() {
        let both = [("x-original-uri", "/login"), ("x-forwarded-uri", "/free")];
        assert!(describe("", "127.0.0.1", &both).contains("differ"));
        let twice = [("x-forwarded-uri", "/login"), ("x-forwarded-uri", "/free")];
        assert!(describe("", "127.0.0.1", &twice).contains("twice"));
        let alike = [("x-original-url", "http://h/login"), ("x-forwarded-uri", "/login")];
        assert!(describe("", "127.0.0.1", &alike).starts_with("GET /login"));
    }

    #[test]
    fn addresses_may_have_ports_and_brackets() {
        for (text, expected) in [
            ("203.0.113.7:80", "203.0.113.7"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("nonsense", "127.0.0.1"),
            ("1.1.1.1, nonsense", "127.0.0.1"),
        ] {
            let described = describe("", "127.0.0.1", &[("x-forwarded-for", text)]);
            assert_eq!(described.split(' ').next_back(), Some(expected), "{text}");
        }
    }
}
