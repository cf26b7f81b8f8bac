//! Free ports of loopback, reserved across processes for as long as they are held.
//!
//! The ports lie below the range of outgoing connections, so that a killed server finds its port
//! free when it restarts. Between processes that use this crate, a port belongs to the process that
//! has bound the abstract Unix address of its name. The system frees that address when the process
//! ends.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// The range of ports. The port [`BUS`] above each must be free as well.
const FIRST: u16 = 11_000;
const COUNT: u16 = 10_000;

/// The distance of the port on which the nodes of a cluster talk to each other.
const BUS: u16 = 10_000;

/// A reserved port of loopback.
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
    /// Returns a port that is free and whose bus port is free.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn free() -> Port {
        let start = RandomState::new().hash_one(0) % u64::from(COUNT);
        let start = u16::try_from(start).expect("it is below COUNT");
        let ports = (0..COUNT).map(|i| FIRST + (start + i) % COUNT);
        ports.into_iter().find_map(Port::claim).expect("no port is free")
    }

    /// Returns the port number.
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
