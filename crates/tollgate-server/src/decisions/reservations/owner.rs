//! The client that a reservation counts for.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::net::client_network;

/// The client that made a reservation, whose share of the memory it uses.
///
/// A client that authenticates is its token. Any other client is its address; an IPv6 client is its
/// network of 64 bits, because it can choose the rest. All clients of Unix sockets are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReservationOwner {
    /// The name of the client's token.
    Token(Box<str>),
    /// The address of the client.
    Address(IpAddr),
    /// A client of a Unix socket.
    #[default]
    UnixSocket,
}

impl ReservationOwner {
    /// Returns the owner without a token; `peer` is the address of its connection.
    pub(crate) fn anonymous(peer: Option<IpAddr>) -> ReservationOwner {
        match peer {
            None => ReservationOwner::UnixSocket,
            Some(peer) => ReservationOwner::Address(client_network(peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_client_are_one_owner() {
        let owner = |text: &str| ReservationOwner::anonymous(Some(text.parse().unwrap()));
        assert_eq!(owner("2001:db8::1"), owner("2001:db8::ffff:2"));
        assert_ne!(owner("2001:db8::1"), owner("2001:db8:0:1::1"));
        assert_eq!(owner("::ffff:192.0.2.1"), owner("192.0.2.1"));
        assert_ne!(owner("192.0.2.1"), owner("192.0.2.2"));
        assert_ne!(owner("192.0.2.1"), ReservationOwner::anonymous(None));
    }
}
