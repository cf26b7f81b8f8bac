//! One group of servers that keeps a share of the keys: a server, a master with its sentinels, or
//! a cluster.

use std::fmt;

use super::Address;

/// One group of servers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// What tells it from the others, wherever it is: decides which keys it keeps.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) tls: bool,
    pub(crate) login: Login,
    pub(crate) db: i64,
}

/// What sort of group.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Single(Address),
    Sentinel { sentinels: Vec<Address>, master: String, login: Login },
    Cluster { seeds: Vec<Address> },
}

/// Who to say one is.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl Group {
    /// The name a group has unless it is given one: where it is, however that is written. How one
    /// speaks to it (as whom, with TLS or without) does not matter.
    pub(crate) fn name_by_place(kind: &Kind, db: i64) -> String {
        let list = |addresses: &[Address]| {
            let mut names: Vec<String> = addresses.iter().map(Address::to_string).collect();
            names.sort();
            names.dedup();
            names.join(",")
        };
        let place = match kind {
            Kind::Single(address) => address.to_string(),
            Kind::Sentinel { sentinels, master, .. } => format!("{}/{master}", list(sentinels)),
            Kind::Cluster { seeds } => list(seeds),
        };
        if db == 0 { place } else { format!("{place}/{db}") }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let list = |f: &mut fmt::Formatter<'_>, addresses: &[Address]| {
            addresses.iter().enumerate().try_for_each(|(i, address)| {
                let comma = if i == 0 { "" } else { "," };
                write!(f, "{comma}{address}")
            })
        };
        match &self.kind {
            Kind::Single(address @ Address::Tcp { .. }) => {
                write!(f, "{scheme}://{}{address}", self.login)?
            }
            Kind::Single(address @ Address::Unix(_)) => {
                write!(f, "redis+unix://{}{address}", self.login)?;
                return if self.db == 0 { Ok(()) } else { write!(f, "?db={}", self.db) };
            }
            Kind::Sentinel { sentinels, master, .. } => {
                write!(f, "{scheme}+sentinel://{}", self.login)?;
                list(f, sentinels)?;
                write!(f, "/{master}")?;
            }
            Kind::Cluster { seeds } => {
                write!(f, "{scheme}+cluster://{}", self.login)?;
                list(f, seeds)?;
            }
        }
        if self.db == 0 { Ok(()) } else { write!(f, "/{}", self.db) }
    }
}

/// As in an address, without the password.
impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().unwrap_or_default();
        match &self.password {
            Some(_) => write!(f, "{user}:***@"),
            None if user.is_empty() => Ok(()),
            // Who forgets the colon writes the password here.
            None => f.write_str("***@"),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
