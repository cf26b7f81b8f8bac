//! How to reach the servers: addresses, time-outs, names of keys, TLS.

mod address;
mod group;
mod read;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

pub(crate) use address::Address;
pub(crate) use group::{Group, Kind, Login};

use crate::{ConnectError, fleet};

/// Places are numbered in 16 bits, and nobody has a thousand groups.
const MOST_GROUPS: usize = 1024;
const MOST_CONNECTIONS: usize = 64;
const LONGEST_PREFIX: usize = 64;

/// Which Redis or Valkey to use, and how.
///
/// | address | what it is |
/// | --- | --- |
/// | `redis://[user[:password]@]host[:port][/db]` | one server |
/// | `redis+unix://[user:password@]/path[?db=n]` | one server, through a socket in the file system |
/// | `redis+sentinel://[user:password@]host[:port],…/master[/db]` | the server that these sentinels call the master of that name, whichever it is at the moment |
/// | `redis+cluster://[user:password@]host[:port],…` | a cluster; some of its nodes are enough |
///
/// With `rediss` instead of `redis` all of them speak TLS; `valkey` and `valkeys` are understood
/// as well. What has a meaning of its own in an address (`@`, `/`, `:`, `%`) is written `%40` and
/// so on in names and passwords. Sentinels that ask for a password of their own are told
/// `?sentinel_password=…`, and `&sentinel_user=…`.
///
/// Several addresses, separated by spaces, are several *groups*: each keeps the counters of its
/// share of the keys. Groups are told apart by their addresses, or by a name that outlives those,
/// `?name=…`; adding a group moves only the keys that it takes over.
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
    pub(crate) groups: Vec<Group>,
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) sync_interval: Duration,
    pub(crate) tls: TlsFiles,
}

/// Files in PEM; without a CA, those that the machine trusts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

impl Options {
    /// What the names of all keys start with: `tollgate` unless told otherwise. Those who share
    /// counters use the same, others another.
    pub fn prefix(self, prefix: &str) -> Result<Options, ConnectError> {
        let wrong = |why: &str| {
            let text = format!("the prefix {prefix:?} {why}: write letters, digits, `-` or `_`");
            Err(ConnectError::new(text))
        };
        if prefix.is_empty() {
            return wrong("is empty");
        }
        if prefix.len() > LONGEST_PREFIX {
            return wrong("is longer than 64 bytes");
        }
        // A brace would decide about the slot in a cluster, which is up to the key.
        if prefix.contains(['{', '}']) {
            return wrong("has a brace in it");
        }
        if prefix.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return wrong("has a space in it");
        }
        Ok(Options { prefix: prefix.to_owned(), ..self })
    }

    /// How long an answer may take: 40 ms unless told otherwise. A server that is silent for
    /// longer is left alone until it is well again.
    pub fn timeout(self, timeout: Duration) -> Result<Options, ConnectError> {
        Ok(Options { timeout: within("the time-out", timeout)?, ..self })
    }

    /// How long it may take to connect: 1 s unless told otherwise.
    pub fn connect_timeout(self, timeout: Duration) -> Result<Options, ConnectError> {
        Ok(Options { connect_timeout: within("the time-out to connect", timeout)?, ..self })
    }

    /// How many connections to keep to each server: 2 unless told otherwise. Requests share them.
    pub fn connections(self, connections: usize) -> Result<Options, ConnectError> {
        if !(1..=MOST_CONNECTIONS).contains(&connections) {
            let text = format!(
                "{connections} connections to a server: write a number from 1 to \
                 {MOST_CONNECTIONS}; two are enough for most"
            );
            return Err(ConnectError::new(text));
        }
        Ok(Options { connections, ..self })
    }

    /// How often nodes tell the store what they have spent of `synced` limits: every 100 ms unless
    /// told otherwise.
    pub fn sync_interval(self, interval: Duration) -> Result<Options, ConnectError> {
        Ok(Options { sync_interval: within("the interval to sync in", interval)?, ..self })
    }

    /// Who vouches for the servers, a file in PEM, instead of those this machine trusts.
    pub fn ca_file(self, path: impl AsRef<Path>) -> Options {
        let ca = Some(path.as_ref().to_owned());
        Options { tls: TlsFiles { ca, ..self.tls }, ..self }
    }

    /// The certificate to show to servers that ask for one, and its private key, files in PEM.
    pub fn client_certificate(self, file: impl AsRef<Path>, key: impl AsRef<Path>) -> Options {
        let client = Some((file.as_ref().to_owned(), key.as_ref().to_owned()));
        Options { tls: TlsFiles { client, ..self.tls }, ..self }
    }

    /// The password of every group whose address has none.
    ///
    /// ```
    /// use tollgate_redis::Options;
    /// let options: Options = "redis://tollgate@cache.example".parse()?;
    /// assert_eq!(options.password("s3cret").to_string(), "redis://tollgate:***@cache.example:6379");
    /// # Ok::<(), tollgate_redis::ConnectError>(())
    /// ```
    pub fn password(mut self, password: &str) -> Options {
        for group in &mut self.groups {
            group.login.password.get_or_insert_with(|| password.to_owned());
        }
        self
    }

    /// Looks at what connecting would, the files of TLS among it, and connects to nobody.
    pub fn check(&self) -> Result<(), ConnectError> {
        self.check_logins()?;
        fleet::read_tls(self).map(drop)
    }

    /// A password may come after its user, but must be there in the end.
    pub(crate) fn check_logins(&self) -> Result<(), ConnectError> {
        let lacks = |group: &&Group| group.login.user.is_some() && group.login.password.is_none();
        match self.groups.iter().find(lacks) {
            None => Ok(()),
            Some(group) => Err(ConnectError::new(format!(
                "{group}: a user without a password: write user:password@, or :password@ where \
                 there are no users, or give the password apart"
            ))),
        }
    }

    /// Whether any of the groups speaks TLS.
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
            .map(read::group)
            .collect::<Result<Vec<Group>, ConnectError>>()?;
        if groups.is_empty() {
            return Err(ConnectError::new("no address: write redis://host:6379"));
        }
        if groups.len() > MOST_GROUPS {
            let text = format!("{} addresses: write {MOST_GROUPS} at most", groups.len());
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
