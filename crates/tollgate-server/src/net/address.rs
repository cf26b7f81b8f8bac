//! Addresses of doors: an IP address and a port, or a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a door: an IP address and a port, or a Unix socket.
///
/// ```
/// use tollgate_server::net::Address;
/// assert!("127.0.0.1:8080".parse::<Address>().is_ok());
/// assert_eq!("unix:/run/tollgate.sock".parse::<Address>()?.to_string(), "unix:/run/tollgate.sock");
/// assert!("localhost".parse::<Address>().is_err());
/// # Ok::<(), tollgate_server::net::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port; port 0 takes any free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket, written `unix:PATH`.
    Unix(PathBuf),
}

/// The error of parsing an [`Address`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address; write 127.0.0.1:8080, :8080, [::1]:8080 or unix:/path/to/socket")]
pub struct AddressError(String);

impl Address {
    /// Returns whether only this machine can reach the address.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Address::Unix(path.into()));
        }
        // A port alone is on loopback: a door is public only if an address says so.
        let numeric = match text.starts_with(':') {
            true => format!("127.0.0.1{text}"),
            false => text.replacen("localhost:", "127.0.0.1:", 1),
        };
        numeric.parse().map(Address::Tcp).map_err(|_| AddressError(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
