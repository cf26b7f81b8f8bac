//! The part of an address that identifies a client, where clients share a bounded resource.

use std::net::{IpAddr, Ipv6Addr};

/// The prefix of an IPv6 address that identifies a client: one subscriber has a whole network.
const PREFIX_BITS: u32 = 64;

/// Returns the IPv4 address of a client, or the network of its IPv6 address.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = !(u128::MAX >> PREFIX_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & network))
        }
        v4 => v4,
    }
}
