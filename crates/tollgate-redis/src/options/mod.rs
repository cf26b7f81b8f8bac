//! The options of the store: addresses, time-outs, the key prefix, TLS.

mod address;
mod group_options;
mod parse;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

pub(crate) use address::Address;
pub(crate) use group_options::{Credentials, GroupOptions, Topology};

use crate::{ConnectError, client};

/// The maximum number of groups: group indices have 16 bits, and this is plenty.
const MAX_GROUPS: usize = 1024;
const MAX_CONNECTIONS: usize = 64;
const MAX_PREFIX_LENGTH: usize = 64;

/// The options of a [`RedisStore`](crate::RedisStore), parsed from one or more addresses.
///
/// | address | servers |
/// | --- | --- |
/// | `redis://[user[:password]@]host[:port][/db]` | one server |
/// | `redis+unix://[user:password@]/path[?db=n]` | one server, through a Unix socket |
/// | `redis+sentinel://[user:password@]host[:port],…/master[/db]` | the current master of that name, found through these sentinels |
/// | `redis+cluster://[user:password@]host[:port],…` | a cluster; some of its nodes are enough |
///
/// With `rediss` instead of `redis` all of them use TLS; `valkey` and `valkeys` are accepted too.
/// Reserved characters (`@`, `/`, `:`, `%`) in names and passwords are percent-encoded, as `%40`.
/// The credentials of sentinels are given as `?sentinel_password=…` and `&sentinel_user=…`.
///
/// Several addresses, separated by spaces, are several *groups*: each holds the counters of its
/// share of the keys. A group is identified by its addresses, or by a name that outlives them,
/// `?name=…`. Adding a group moves only the keys that it takes over.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::Options;
///
/// let options: Options = "redis://tollgate:s3cret@cache.example:6379/2".parse()?;
/// let options = options.prefix("shop")?.timeout(Duration::from_millis(20))?;
/// assert_eq!(options.to_string(), "redis://tollgate:***@cache.example:6379/2");
///
/// let wrong = "cache.example:6379".parse::<Options>().unwrap_err();
/// assert!(wrong.to_string().contains("redis://cache.example:6379"));
/// # Ok::<(), tollgate_redis::ConnectError>(())
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) groups: Vec<GroupOptions>,
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) sync_interval: Duration,
    pub(crate) tls: TlsFiles,
}

/// The PEM files of TLS. Without a CA file, the system's CA certificates are used.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

impl Options {
    /// Sets the prefix of all key names. Nodes that share counters use the same prefix. [default:
    /// `tollgate`]
    pub fn prefix(self, prefix: &str) -> Result<Options, ConnectError> {
        let wrong = |why: &str| {
            let text = format!("the prefix {prefix:?} {why}: write letters, digits, `-` or `_`");
            Err(ConnectError::new(text))
        };
        if prefix.is_empty() {
            return wrong("is empty");
        }
        if prefix.len() > MAX_PREFIX_LENGTH {
            return wrong("is longer than 64 bytes");
        }
        // The first brace in a name decides on the slot, and must be that of the tag.
        if prefix.contains(['{', '}']) {
            return wrong("has a brace in it");
        }
        if prefix.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return wrong("has a space in it");
        }
        Ok(Options { prefix: prefix.to_owned(), ..self })
    }

    /// Sets the maximum time of a reply. A server that is silent for longer is marked down until a
    /// probe succeeds. [default: 40 ms]
    pub fn timeout(self, timeout: Duration) -> Result<Options, ConnectError> {
        Ok(Options { timeout: within("the time-out", timeout)?, ..self })
    }

    /// Sets the maximum time to connect. [default: 1 s]
    pub fn connect_timeout(self, timeout: Duration) -> Result<Options, ConnectError> {
        Ok(Options { connect_timeout: within("the time-out to connect", timeout)?, ..self })
    }

    /// Sets the number of connections to each server, which all requests share. [default: 2]
    pub fn connections(self, connections: usize) -> Result<Options, ConnectError> {
        if !(1..=MAX_CONNECTIONS).contains(&connections) {
            let text = format!(
                "{connections} connections to a server: write a number from 1 to \
                 {MAX_CONNECTIONS}; two are enough for most"
            );
            return Err(ConnectError::new(text));
        }
        Ok(Options { connections, ..self })
    }

    /// Sets the interval at which nodes push what they have spent of `synced` limits. [default: 100
    /// ms]
    pub fn sync_interval(self, interval: Duration) -> Result<Options, ConnectError> {
        Ok(Options { sync_interval: within("the interval to sync in", interval)?, ..self })
    }

    /// Sets the PEM file of the CA certificates that verify the servers. [default: system roots]
    pub fn ca_file(self, path: impl AsRef<Path>) -> Options {
        let ca = Some(path.as_ref().to_owned());
        Options { tls: TlsFiles { ca, ..self.tls }, ..self }
    }

    /// Sets the PEM files of the client certificate and its private key.
    pub fn client_certificate(self, file: impl AsRef<Path>, key: impl AsRef<Path>) -> Options {
        let client = Some((file.as_ref().to_owned(), key.as_ref().to_owned()));
        Options { tls: TlsFiles { client, ..self.tls }, ..self }
    }

    /// Sets the password of every group whose address has none.
    ///
    /// ```
    /// use tollgate_redis::Options;
    /// let options: Options = "redis://tollgate@cache.example".parse()?;
    /// assert_eq!(options.password("s3cret").to_string(), "redis://tollgate:***@cache.example:6379");
    /// # Ok::<(), tollgate_redis::ConnectError>(())
    /// ```
    pub fn password(mut self, password: &str) -> Options {
        for group in &mut self.groups {
            group.credentials.password.get_or_insert_with(|| password.to_owned());
        }
        self
    }

    /// Checks the options and reads the TLS files, without connecting.
    pub fn check(&self) -> Result<(), ConnectError> {
        self.check_credentials()?;
        client::read_tls(self).map(drop)
    }

    /// Checks that every user has a password, which may be set after the address.
    pub(crate) fn check_credentials(&self) -> Result<(), ConnectError> {
        let lacks = |group: &&GroupOptions| {
            group.credentials.user.is_some() && group.credentials.password.is_none()
        };
        match self.groups.iter().find(lacks) {
            None => Ok(()),
            Some(group) => Err(ConnectError::new(format!(
                "{group}: a user without a password: write user:password@, or :password@ where \
                 there are no users, or give the password apart"
            ))),
        }
    }

    /// Returns whether any group uses TLS.
    pub(crate) fn any_tls(&self) -> bool {
        self.groups.iter().any(|group| group.tls)
    }
}

fn within(what: &str, timeout: Duration) -> Result<Duration, ConnectError> {
    if (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&timeout) {
        return Ok(timeout);
    }
    let text = format!("{what} is {timeout:?}: write one between 1 ms and 60 s");
    Err(ConnectError::new(text))
}

impl FromStr for Options {
    type Err = ConnectError;

    fn from_str(text: &str) -> Result<Options, ConnectError> {
        let groups = text
            .split_whitespace()
            .map(parse::group)
            .collect::<Result<Vec<GroupOptions>, ConnectError>>()?;
        if groups.is_empty() {
            return Err(ConnectError::new("no address: write redis://host:6379"));
        }
        if groups.len() > MAX_GROUPS {
            let text = format!("{} addresses: write {MAX_GROUPS} at most", groups.len());
            return Err(ConnectError::new(text));
        }
        for (i, group) in groups.iter().enumerate() {
            if groups[..i].iter().any(|earlier| earlier.name == group.name) {
                let text = format!(
                    "two groups are called {:?}: write each address once, or give each group a \
                     `?name=` of its own",
                    group.name
                );
                return Err(ConnectError::new(text));
            }
        }
        Ok(Options {
            groups,
            prefix: "tollgate".to_owned(),
            timeout: Duration::from_millis(40),
            connect_timeout: Duration::from_secs(1),
            connections: 2,
            sync_interval: Duration::from_millis(100),
            tls: TlsFiles::default(),
        })
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, group) in self.groups.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            write!(f, "{gap}{group}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("groups", &format_args!("{self}"))
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("connections", &self.connections)
            .field("sync_interval", &self.sync_interval)
            .field("tls", &self.tls)
            .finish()
    }
}

#[cfg(test)]
mod tests;
