//! The address of the client of a request, behind trusted proxies.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;

/// The proxies whose `X-Forwarded-For` is trusted.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies {
    /// The networks of these proxies.
    pub(crate) networks: Vec<IpNet>,
}

impl TrustedProxies {
    /// Returns the client's address: that of the peer, or one that a trusted proxy forwards.
    ///
    /// Behind a trusted proxy it is the rightmost address in `X-Forwarded-For` that is not a trusted
    /// proxy's; the client may have written the addresses left of it. `also` are more trusted proxies.
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
            self.networks.iter().chain(also).any(|network| network.contains(&address))
        };
        let peer = canonical(peer);
        if !covers(peer) {
            return peer;
        }
        let forwarded_for = forwarded_for();
        let hops = forwarded_for.as_ref().iter().rev().flat_map(|hops| hops.rsplit(','));
        rightmost_untrusted(hops, covers).unwrap_or(peer)
    }
}

/// Returns the rightmost address in `X-Forwarded-For` that is not a trusted proxy's.
///
/// `hops` come from the last to the first. The client may have written those left of the result. If
/// all are trusted, the result is the leftmost; none if there is no hop.
///
/// ```
/// use tollgate_rules::rightmost_untrusted;
///
/// let hops = "1.1.1.1, 203.0.113.7, 10.0.0.2".rsplit(',');
/// let client = rightmost_untrusted(hops, |address| address.to_string().starts_with("10."));
/// assert_eq!(client, Some("203.0.113.7".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn rightmost_untrusted<'h>(
    hops: impl Iterator<Item = &'h str>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut client = None;
    for hop in hops {
        // Behind a hop that is no address nothing is known: the last address is the client's.
        let Some(address) = address(hop) else { break };
        client = Some(address);
        if !is_trusted(address) {
            break;
        }
    }
    client
}

/// Converts an IPv4 address that is written as IPv6.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Parses an address as proxies write it: also with a port, and IPv6 in brackets.
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

/// Returns the network that an address is in: `bits4` of IPv4, `bits6` of IPv6.
pub(crate) fn group(address: IpAddr, bits4: u8, bits6: u8) -> IpAddr {
    let bits = if address.is_ipv4() { bits4 } else { bits6 };
    IpNet::new(address, bits).map_or(address, |net| net.network())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &str, peer: &str, forwarded: &[&str]) -> String {
        let trust = TrustedProxies {
            networks: trusted.split(' ').map(|net| net.parse().unwrap()).collect(),
        };
        let headers = || forwarded.iter().map(|hops| Cow::from(*hops)).collect::<Vec<_>>();
        let client = trust.client(peer.parse().unwrap(), &[], headers);
        let by_request =
            TrustedProxies::default().client(peer.parse().unwrap(), &trust.networks, headers);
        assert_eq!(client, by_request);
        client.to_string()
    }

    #[test]
    fn only_trusted_proxies_forward_an_address() {
        let trusted = "10.0.0.0/8 2001:db8::/32";
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
            assert_eq!(client(trusted, peer, &forwarded), expected, "{peer} {forwarded:?}");
        }
    }
}
