//! The options of a group: a server, a master with its sentinels, or a cluster.

use std::fmt;

use super::Address;

/// The options of a group of servers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct GroupOptions {
    /// The unique name of the group, which decides on its share of the keys.
    pub(crate) name: String,
    pub(crate) topology: Topology,
    pub(crate) tls: bool,
    pub(crate) credentials: Credentials,
    pub(crate) db: i64,
}

/// The servers of a group.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Topology {
    Single(Address),
    Sentinel { sentinels: Vec<Address>, master: String, credentials: Credentials },
    Cluster { seeds: Vec<Address> },
}

/// A user name and a password.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl GroupOptions {
    /// Returns the name of a group that was given none: its addresses in a normal form. TLS and
    /// credentials do not change it.
    pub(crate) fn default_name(topology: &Topology, db: i64) -> String {
        let list = |addresses: &[Address]| {
            let mut names: Vec<String> = addresses.iter().map(Address::to_string).collect();
            names.sort();
            names.dedup();
            names.join(",")
        };
        let address = match topology {
            Topology::Single(address) => address.to_string(),
            Topology::Sentinel { sentinels, master, .. } => format!("{}/{master}", list(sentinels)),
            Topology::Cluster { seeds } => list(seeds),
        };
        if db == 0 { address } else { format!("{address}/{db}") }
    }
}

impl fmt::Display for GroupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let list = |f: &mut fmt::Formatter<'_>, addresses: &[Address]| {
            addresses.iter().enumerate().try_for_each(|(i, address)| {
                let comma = if i == 0 { "" } else { "," };
                write!(f, "{comma}{address}")
            })
        };
        match &self.topology {
            Topology::Single(address @ Address::Tcp { .. }) => {
                write!(f, "{scheme}://{}{address}", self.credentials)?
            }
            Topology::Single(address @ Address::Unix(_)) => {
                write!(f, "redis+unix://{}{address}", self.credentials)?;
                return if self.db == 0 { Ok(()) } else { write!(f, "?db={}", self.db) };
            }
            Topology::Sentinel { sentinels, master, .. } => {
                write!(f, "{scheme}+sentinel://{}", self.credentials)?;
                list(f, sentinels)?;
                write!(f, "/{master}")?;
            }
            Topology::Cluster { seeds } => {
                write!(f, "{scheme}+cluster://{}", self.credentials)?;
                list(f, seeds)?;
            }
        }
        if self.db == 0 { Ok(()) } else { write!(f, "/{}", self.db) }
    }
}

/// Writes the credentials as in an address, without the password.
impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().unwrap_or_default();
        match &self.password {
            Some(_) => write!(f, "{user}:***@"),
            None if user.is_empty() => Ok(()),
            // An address without the colon has the password in place of the user.
            None => f.write_str("***@"),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for GroupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
