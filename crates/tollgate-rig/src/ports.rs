//! Ports that nobody else takes, in this process or another, for as long as they are held.
//!
//! Below the range from which the system gives ports to outgoing connections, so that a server that
//! was killed finds its port free when it comes back. Between processes that use this crate, a port
//! belongs to whoever has bound the abstract Unix address of that name; the system frees it
//! when its owner ends, however that happens.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// The ports to choose from, each with the one by [`BUS`] above it.
const FIRST: u16 = 11_000;
const COUNT: u16 = 10_000;

/// Nodes of a cluster speak to each other at a port that is this much higher.
const BUS: u16 = 10_000;

/// A port of loopback, and the claim on it.
///
/// ```
/// use tollgate_rig::Port;
///
/// let port = Port::free();
/// assert!(std::net::TcpListener::bind(("127.0.0.1", port.number())).is_ok());
/// ```
#[derive(Debug)]
pub struct Port {
    pub(crate) number: u16,
    _claim: UnixListener,
}

impl Port {
    /// One that is free, and whose bus port is free as well.
    ///
    /// # Panics
    ///
    /// If none is.
    #[must_use]
    pub fn free() -> Port {
        let start = RandomState::new().hash_one(0) % u64::from(COUNT);
        let start = u16::try_from(start).expect("it is below COUNT");
        let ports = (0..COUNT).map(|i| FIRST + (start + i) % COUNT);
        ports.into_iter().find_map(Port::claim).expect("no port is free")
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    fn claim(number: u16) -> Option<Port> {
        let name = format!("tollgate-rig-port-{number}");
        let address = SocketAddr::from_abstract_name(name).expect("the name is short");
        let claim = UnixListener::bind_addr(&address).ok()?;
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        (free(number) && free(number + BUS)).then_some(Port { number, _claim: claim })
    }
}
