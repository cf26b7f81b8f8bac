//! What upstreams are told of a request's client. Proxies that are trusted are believed; what
//! anybody else says of it is replaced by what is known.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{FORWARDED, HOST, HeaderName, HeaderValue};
use ipnet::IpNet;
use tollgate::rules::rightmost_stranger;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
/// Header fields that tell of the client.
const TELLING: [HeaderName; 9] = [
    FOR,
    PROTO,
    FORWARDED_HOST,
    REAL_IP,
    FORWARDED,
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-forwarded-scheme"),
    HeaderName::from_static("x-forwarded-ssl"),
];

/// Who is at the other end of a connection, ready to be written into every request.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    address: Option<IpAddr>,
    text: Option<HeaderValue>,
    proto: HeaderValue,
}

/// Who the client is, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    told: Told,
    pub(super) client: Option<IpAddr>,
}

/// Whether a client's header fields say something about the client, and whether that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Believed,
    Doubted,
}

impl Peer {
    pub(super) fn new(address: Option<IpAddr>, is_secret: bool) -> Peer {
        let address = address.map(|address| address.to_canonical());
        let text = address.and_then(|address| HeaderValue::from_str(&address.to_string()).ok());
        let proto = HeaderValue::from_static(if is_secret { "https" } else { "http" });
        Peer { address, text, proto }
    }

    /// What it takes to make the same again: the address, and whether the connection is encrypted.
    pub(super) fn kept(&self) -> (Option<IpAddr>, bool) {
        (self.address, self.proto == "https")
    }

    /// Who the client is, as far as its header fields are believed. `proxies` are those that are
    /// trusted, asked for only if there is something to believe. Who came by a socket in the file
    /// system is on this machine.
    pub(super) fn know(&self, headers: &HeaderMap, proxies: impl FnOnce() -> Vec<IpNet>) -> Known {
        // Comparing names is cheaper than looking each of them up.
        if !headers.keys().any(|name| TELLING.contains(name)) {
            return Known { told: Told::Nothing, client: self.address };
        }
        let proxies = proxies();
        if self.address.is_some_and(|address| !covers(&proxies, address)) {
            return Known { told: Told::Doubted, client: self.address };
        }
        let lines: Vec<&HeaderValue> = headers.get_all(FOR).iter().collect();
        let hops = lines.iter().rev().flat_map(|line| line.to_str().unwrap_or("?").rsplit(','));
        let client = rightmost_stranger(hops, |address| covers(&proxies, address));
        Known { told: Told::Believed, client: client.or(self.address) }
    }

    /// Writes what is known of the client into a request that is sent on.
    pub(super) fn introduce(&self, headers: &mut HeaderMap, Known { told, client }: Known) {
        forget_lookalikes(headers);
        if told == Told::Doubted {
            TELLING.iter().for_each(|name| drop(headers.remove(name)));
        }
        // Said twice in different ways, upstreams would choose: one way is enough.
        headers.remove(FORWARDED);
        // Four are added below: once is enough to make room.
        headers.reserve(4);
        if let Some(peer) = &self.text {
            headers.append(FOR, peer.clone());
            join(headers, &FOR, ", ");
        }
        if !headers.contains_key(REAL_IP) || told == Told::Believed {
            let own = || client.and_then(|client| HeaderValue::from_str(&client.to_string()).ok());
            let known = if client == self.address { self.text.clone() } else { own() };
            known.map(|client| headers.insert(REAL_IP, client));
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

/// Makes one field of several.
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

/// Many upstreams take `_` in a name for `-`: what would then stand for a field that tells of the
/// client, or for another one that is there, is forgotten.
fn forget_lookalikes(headers: &mut HeaderMap) {
    let has_line = |name: &&HeaderName| memchr::memchr(b'_', name.as_str().as_bytes()).is_some();
    if !headers.keys().any(|name| has_line(&name)) {
        return;
    }
    let lookalikes: Vec<HeaderName> = headers
        .keys()
        .filter(has_line)
        .filter(|name| {
            let meant = name.as_str().replace('_', "-");
            TELLING.iter().any(|telling| telling.as_str() == meant)
                || matches!(meant.as_str(), "content-length" | "transfer-encoding")
                || headers.contains_key(&meant)
        })
        .cloned()
        .collect();
    lookalikes.iter().for_each(|name| drop(headers.remove(name)));
}

fn covers(proxies: &[IpNet], address: IpAddr) -> bool {
    proxies.iter().any(|proxies| proxies.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduced(peer: &str, trusted: &str, sent: &[(&str, &str)]) -> Vec<String> {
        let proxies: Vec<IpNet> =
            trusted.split_whitespace().map(|net| net.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let peer = Peer::new(Some(peer.parse().unwrap()), false);
        let known = peer.know(&headers, || proxies.clone());
        peer.introduce(&mut headers, known);
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
    fn strangers_are_not_believed() {
        let expected = ["198.51.100.1", "198.51.100.1", "http", "shop", ""];
        assert_eq!(introduced("198.51.100.1", "", &FORGED), expected);
        assert_eq!(introduced("198.51.100.1", "10.0.0.0/8", &FORGED), expected);
        assert_eq!(introduced("::ffff:198.51.100.1", "", &FORGED[..1]), expected);
        let lookalikes =
            [("host", "shop"), ("x_forwarded_for", "1.1.1.1"), ("x_real-ip", "1.1.1.1")];
        assert_eq!(introduced("198.51.100.1", "", &lookalikes), expected);
    }

    #[test]
    fn trusted_proxies_are() {
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

    #[test]
    fn lookalikes_of_fields_that_are_there_are_forgotten() {
        let mut headers = HeaderMap::new();
        for name in ["x-org", "x_org", "x_other"] {
            headers.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("a"));
        }
        forget_lookalikes(&mut headers);
        assert!(!headers.contains_key("x_org") && headers.contains_key("x_other"));
    }
}
