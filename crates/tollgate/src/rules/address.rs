//! Whose address a request comes from.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;

/// Which proxies' word is taken for who is behind them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    pub(crate) proxies: Vec<IpNet>,
}

impl Trust {
    /// The client's address: the peer's, unless it is a trusted proxy's; then the rightmost one
    /// in `X-Forwarded-For` that is not. What stands left of that was written by the client.
    /// `also` are proxies that are trusted besides these.
    pub(crate) fn client<'h, V>(
        &self,
        peer: IpAddr,
        also: &[IpNet],
        forwarded_for: impl FnOnce() -> V,
    ) -> IpAddr
    where
        V: AsRef<[Cow<'h, str>]>,
    {
        let covers = |address: IpAddr| {
            self.proxies.iter().chain(also).any(|proxies| proxies.contains(&address))
        };
        let peer = canonical(peer);
        if !covers(peer) {
            return peer;
        }
        let forwarded_for = forwarded_for();
        let hops = forwarded_for.as_ref().iter().rev().flat_map(|hops| hops.rsplit(','));
        rightmost_stranger(hops, covers).unwrap_or(peer)
    }
}

/// Of the hops in `X-Forwarded-For`, given from the last one to the first, the first that is no
/// trusted proxy's: what stands left of it was written by the client. If all are, the one on the
/// far left; none if there is none.
///
/// ```
/// use tollgate::rules::rightmost_stranger;
///
/// let hops = "1.1.1.1, 203.0.113.7, 10.0.0.2".rsplit(',');
/// let client = rightmost_stranger(hops, |address| address.to_string().starts_with("10."));
/// assert_eq!(client, Some("203.0.113.7".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn rightmost_stranger<'h>(
    hops: impl Iterator<Item = &'h str>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut client = None;
    for hop in hops {
        // What is no address names nobody: the last hop that does is the client.
        let Some(address) = address(hop) else { break };
        client = Some(address);
        if !is_trusted(address) {
            break;
        }
    }
    client
}

/// An address that was written as IPv6 but is an IPv4 one is the latter.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// An address as proxies write it: also with a port, and IPv6 in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let parsed = match bracketed {
        Some((address, _)) => address.parse().ok(),
        None => text.parse().ok().or_else(|| {
            let (address, _port) = text.rsplit_once(':')?;
            address.parse().ok().filter(IpAddr::is_ipv4)
        }),
    };
    parsed.map(canonical)
}

/// The network of `prefix` bits that an IPv6 address is in; an IPv4 one stays itself unless the
/// prefix is meant for it (`bits4`).
pub(crate) fn group(address: IpAddr, bits4: u8, bits6: u8) -> IpAddr {
    let bits = if address.is_ipv4() { bits4 } else { bits6 };
    IpNet::new(address, bits).map_or(address, |net| net.network())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &str, peer: &str, forwarded: &[&str]) -> String {
        let trust = Trust { proxies: trusted.split(' ').map(|net| net.parse().unwrap()).collect() };
        let headers = || forwarded.iter().map(|hops| Cow::from(*hops)).collect::<Vec<_>>();
        let client = trust.client(peer.parse().unwrap(), &[], headers);
        let elsewhere = Trust::default().client(peer.parse().unwrap(), &trust.proxies, headers);
        assert_eq!(client, elsewhere);
        client.to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let inside = "10.0.0.0/8 2001:db8::/32";
        for (peer, forwarded, expected) in [
            ("203.0.113.7", vec!["198.51.100.1"], "203.0.113.7"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["1.1.1.1, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", vec!["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["198.51.100.1:4711"], "198.51.100.1"),
            ("10.0.0.1", vec!["[2a00::1]:443"], "2a00::1"),
            ("10.0.0.1", vec!["1.1.1.1, nonsense"], "10.0.0.1"),
            ("10.0.0.1", vec!["1.1.1.1, nonsense, 10.0.0.9"], "10.0.0.9"),
            ("::ffff:10.0.0.1", vec!["::ffff:198.51.100.1"], "198.51.100.1"),
            ("2001:db8::1", vec!["10.1.2.3"], "10.1.2.3"),
        ] {
            assert_eq!(client(inside, peer, &forwarded), expected, "{peer} {forwarded:?}");
        }
    }
}
