//! The header fields that describe the client to upstreams. Those of trusted proxies are kept;
//! those of other peers are replaced.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{FORWARDED, HOST, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use ipnet::IpNet;
use tollgate_rules::rightmost_untrusted;
use tollgate_tower::request_head::RequestHead;

use super::client_headers::is_forwarding;
use crate::identity::RequestIdentity;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
/// The peer of a client connection, ready to be written into every request.
#[derive(Clone, Debug)]
pub(super) struct ConnectionPeer {
    address: Option<IpAddr>,
    text: Option<HeaderValue>,
    proto: HeaderValue,
}

/// The client of a request, and whether its forwarding headers are trusted.
#[derive(Clone, Debug)]
pub(super) struct ResolvedClient {
    trust: ForwardedTrust,
    pub(super) client: Option<IpAddr>,
    /// The verified identities of the request.
    pub(super) identity: RequestIdentity,
}

/// Whether a request has forwarding headers, and whether they are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForwardedTrust {
    Absent,
    Trusted,
    Untrusted,
}

impl ResolvedClient {
    /// Whether the request has forwarding headers of an untrusted peer.
    pub(super) fn is_untrusted(&self) -> bool {
        self.trust == ForwardedTrust::Untrusted
    }

    fn new(trust: ForwardedTrust, client: Option<IpAddr>) -> ResolvedClient {
        ResolvedClient { trust, client, identity: RequestIdentity::default() }
    }

    /// Returns the head of the client's request as rules of a domain see it, without its body.
    pub(super) fn request_head<'a>(
        &'a self,
        head: &'a Parts,
        domain: Option<&'a str>,
    ) -> RequestHead<'a> {
        self.identity.add_to(RequestHead::new(head).peer(self.client).domain(domain))
    }
}

impl ConnectionPeer {
    pub(super) fn new(address: Option<IpAddr>, is_secret: bool) -> ConnectionPeer {
        let address = address.map(|address| address.to_canonical());
        let text = address.and_then(|address| HeaderValue::from_str(&address.to_string()).ok());
        let proto = HeaderValue::from_static(if is_secret { "https" } else { "http" });
        ConnectionPeer { address, text, proto }
    }

    /// Returns the address and whether the connection is encrypted, from which the peer can be
    /// restored.
    pub(super) fn parts(&self) -> (Option<IpAddr>, bool) {
        (self.address, self.proto == "https")
    }

    /// Returns the client of a request. `proxies` returns the trusted proxies, and is called only
    /// if there are forwarding headers. A peer on a Unix socket is trusted.
    pub(super) fn resolve_client(
        &self,
        headers: &HeaderMap,
        proxies: impl FnOnce() -> Vec<IpNet>,
    ) -> ResolvedClient {
        // Comparing names is cheaper than looking each of them up.
        if !headers.keys().any(is_forwarding) {
            return ResolvedClient::new(ForwardedTrust::Absent, self.address);
        }
        let proxies = proxies();
        if self.address.is_some_and(|address| !covers(&proxies, address)) {
            return ResolvedClient::new(ForwardedTrust::Untrusted, self.address);
        }
        let lines: Vec<&HeaderValue> = headers.get_all(FOR).iter().collect();
        let hops = lines.iter().rev().flat_map(|line| line.to_str().unwrap_or("?").rsplit(','));
        let client = rightmost_untrusted(hops, |address| covers(&proxies, address));
        ResolvedClient::new(ForwardedTrust::Trusted, client.or(self.address))
    }

    /// Writes the forwarding headers of a request. Those of untrusted peers are
    /// [removed](super::client_headers) before.
    pub(super) fn write_forwarded(&self, headers: &mut HeaderMap, resolved: &ResolvedClient) {
        let (trust, client) = (resolved.trust, resolved.client);
        // Upstreams would choose between two notations, so only one is sent.
        headers.remove(FORWARDED);
        // Four fields are added below; one allocation is enough.
        headers.reserve(4);
        if let Some(peer) = &self.text {
            headers.append(FOR, peer.clone());
            join(headers, &FOR, ", ");
        }
        if !headers.contains_key(REAL_IP) || trust == ForwardedTrust::Trusted {
            let own = || client.and_then(|client| HeaderValue::from_str(&client.to_string()).ok());
            let resolved = if client == self.address { self.text.clone() } else { own() };
            resolved.map(|client| headers.insert(REAL_IP, client));
        }
        if !headers.contains_key(PROTO) {
            headers.insert(PROTO, self.proto.clone());
        }
        if !headers.contains_key(FORWARDED_HOST)
            && let Some(host) = headers.get(HOST).cloned()
        {
            headers.insert(FORWARDED_HOST, host);
        }
    }
}

/// Joins all fields of a name.
pub(super) fn join(headers: &mut HeaderMap, name: &HeaderName, between: &str) {
    let mut values = headers.get_all(name).iter();
    if let (Some(first), Some(second)) = (values.next(), values.next()) {
        let mut all = first.as_bytes().to_vec();
        for value in std::iter::once(second).chain(values) {
            all.extend_from_slice(between.as_bytes());
            all.extend_from_slice(value.as_bytes());
        }
        if let Ok(all) = HeaderValue::from_bytes(&all) {
            headers.insert(name, all);
        }
    }
}

fn covers(proxies: &[IpNet], address: IpAddr) -> bool {
    proxies.iter().any(|proxies| proxies.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::super::client_headers::PassedHeaders;
    use super::*;

    fn introduced(peer: &str, trusted: &str, sent: &[(&str, &str)]) -> Vec<String> {
        let proxies: Vec<IpNet> =
            trusted.split_whitespace().map(|net| net.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let peer = ConnectionPeer::new(Some(peer.parse().unwrap()), false);
        let resolved = peer.resolve_client(&headers, || proxies.clone());
        PassedHeaders::default().remove_others(&mut headers, resolved.is_untrusted());
        peer.write_forwarded(&mut headers, &resolved);
        let value = |name: &HeaderName| {
            let all: Vec<_> =
                headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
            all.join(" | ")
        };
        let mut all: Vec<String> =
            [FOR, REAL_IP, PROTO, FORWARDED_HOST].iter().map(value).collect();
        all.push(value(&FORWARDED));
        all
    }

    const FORGED: [(&str, &str); 6] = [
        ("host", "shop"),
        ("x-forwarded-for", "1.1.1.1"),
        ("x-real-ip", "1.1.1.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil"),
        ("forwarded", "for=1.1.1.1"),
    ];

    #[test]
    fn untrusted_peers_are_not_believed() {
        let expected = ["198.51.100.1", "198.51.100.1", "http", "shop", ""];
        assert_eq!(introduced("198.51.100.1", "", &FORGED), expected);
        assert_eq!(introduced("198.51.100.1", "10.0.0.0/8", &FORGED), expected);
        assert_eq!(introduced("::ffff:198.51.100.1", "", &FORGED[..1]), expected);
        let lookalikes =
            [("host", "shop"), ("x_forwarded_for", "1.1.1.1"), ("x_real-ip", "1.1.1.1")];
        assert_eq!(introduced("198.51.100.1", "", &lookalikes), expected);
    }

    #[test]
    fn trusted_proxies_are_believed() {
        let trusted = "10.0.0.0/8";
        assert_eq!(
            introduced("10.0.0.1", trusted, &FORGED),
            ["1.1.1.1, 10.0.0.1", "1.1.1.1", "https", "evil", ""]
        );
        let hops = [
            ("host", "shop"),
            ("x-forwarded-for", "6.6.6.6, 1.1.1.1"),
            ("x-forwarded-for", "10.0.0.2"),
        ];
        assert_eq!(
            introduced("10.0.0.1", trusted, &hops),
            ["6.6.6.6, 1.1.1.1, 10.0.0.2, 10.0.0.1", "1.1.1.1", "http", "shop", ""]
        );
    }
}
