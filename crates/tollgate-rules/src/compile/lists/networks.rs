//! A set of networks by prefix length: an address is looked up once for each length in use.

use std::net::IpAddr;

use foldhash::HashMap;
use ipnet::IpNet;
use smallvec::SmallVec;

/// A set of networks, each with a value.
#[derive(Clone, Debug)]
pub(crate) struct Networks<T> {
    lengths: Vec<PrefixLength<T>>,
}

/// The networks of one prefix length.
#[derive(Clone, Debug)]
struct PrefixLength<T> {
    bits: u8,
    is_ipv4: bool,
    networks: HashMap<IpAddr, SmallVec<[T; 1]>>,
}

impl<T> Default for Networks<T> {
    fn default() -> Self {
        Networks { lengths: Vec::new() }
    }
}

impl<T> Networks<T> {
    pub(crate) fn insert(&mut self, network: IpNet, attached: T) {
        let (bits, is_ipv4) = (network.prefix_len(), network.addr().is_ipv4());
        let same = |length: &PrefixLength<T>| length.bits == bits && length.is_ipv4 == is_ipv4;
        let index = self.lengths.iter().position(same).unwrap_or_else(|| {
            self.lengths.push(PrefixLength { bits, is_ipv4, networks: HashMap::default() });
            self.lengths.len() - 1
        });
        self.lengths[index].networks.entry(network.network()).or_default().push(attached);
    }

    /// Iterates over the values of the networks that contain an address.
    pub(crate) fn find(&self, address: IpAddr) -> impl Iterator<Item = &T> {
        let address = address.to_canonical();
        let lengths = self.lengths.iter().filter(move |known| known.is_ipv4 == address.is_ipv4());
        lengths.flat_map(move |known| {
            let network = IpNet::new(address, known.bits).ok();
            network.and_then(|network| known.networks.get(&network.network())).into_iter().flatten()
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }
}
