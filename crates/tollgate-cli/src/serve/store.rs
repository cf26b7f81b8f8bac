//! Where counters are kept: which store, and how to get in.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command};
use tollgate_server::config::{RedisOptions, StoreChoice};

use crate::quantity::patience;

/// What stands for a text that may have a password in it.
const HIDDEN: &str = "…";

#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    /// Where counters are kept: memory, or a Redis or Valkey that servers share, such as
    /// redis://cache.example:6379; rediss, redis+sentinel, redis+cluster. Several are groups that
    /// share the keys
    #[arg(
        long,
        env = "TOLLGATE_STORE",
        value_name = "STORE",
        value_delimiter = ' ',
        value_parser = StoreParser,
        hide_env_values = true
    )]
    store: Vec<StoreName>,
    /// The password of stores whose address has none; better in a file
    #[arg(
        long,
        env = "TOLLGATE_STORE_PASSWORD",
        value_name = "PASSWORD",
        value_parser = PasswordParser,
        hide_env_values = true
    )]
    store_password: Option<Hidden>,
    /// A file with that password, which goes first
    #[arg(long, env = "TOLLGATE_STORE_PASSWORD_FILE", value_name = "FILE")]
    store_password_file: Option<PathBuf>,
    /// What the names of all keys in the store start with: tollgate
    #[arg(long, env = "TOLLGATE_STORE_PREFIX", value_name = "PREFIX")]
    store_prefix: Option<String>,
    /// How long the store may take to answer: 40ms
    #[arg(long, env = "TOLLGATE_STORE_TIMEOUT", value_name = "TIME", value_parser = patience)]
    store_timeout: Option<Duration>,
    /// Who vouches for the store, in PEM; those this machine trusts without it
    #[arg(long, env = "TOLLGATE_STORE_CA", value_name = "FILE")]
    store_ca: Option<PathBuf>,
    /// The certificate to show to the store, in PEM
    #[arg(long, env = "TOLLGATE_STORE_CERT", value_name = "FILE")]
    store_cert: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, env = "TOLLGATE_STORE_KEY", value_name = "FILE")]
    store_key: Option<PathBuf>,
}

impl StoreArgs {
    /// The store that is asked for.
    pub(super) fn choice(&self) -> anyhow::Result<StoreChoice> {
        let mut addresses = Vec::new();
        for name in &self.store {
            match name {
                StoreName::Memory => {}
                StoreName::Redis(Hidden(address)) => addresses.push(address.as_str()),
            }
        }
        if addresses.is_empty() {
            if let Some(flag) = self.needless() {
                bail!("--{flag} is about a store that is shared: write --store redis://…");
            }
            return Ok(StoreChoice::Memory);
        }
        if addresses.len() < self.store.len() {
            bail!("--store: counters are in memory or in Redis, not in both");
        }
        let mut options: RedisOptions = addresses.join(" ").parse().context("--store")?;
        if let Some(password) = self.password()? {
            options = options.password(&password);
        }
        if let Some(prefix) = &self.store_prefix {
            options = options.prefix(prefix).context("--store-prefix")?;
        }
        if let Some(timeout) = self.store_timeout {
            options = options.timeout(timeout).context("--store-timeout")?;
        }
        if let Some(ca) = &self.store_ca {
            options = options.ca_file(ca);
        }
        match (&self.store_cert, &self.store_key) {
            (Some(cert), Some(key)) => options = options.client_certificate(cert, key),
            (None, None) => {}
            (Some(_), None) => bail!("--store-cert comes with --store-key: give both"),
            (None, Some(_)) => bail!("--store-key comes with --store-cert: give both"),
        }
        Ok(StoreChoice::Redis(options))
    }

    /// A setting that has no meaning without a store elsewhere.
    fn needless(&self) -> Option<&'static str> {
        [
            ("store-password", self.store_password.is_some()),
            ("store-password-file", self.store_password_file.is_some()),
            ("store-prefix", self.store_prefix.is_some()),
            ("store-timeout", self.store_timeout.is_some()),
            ("store-ca", self.store_ca.is_some()),
            ("store-cert", self.store_cert.is_some()),
            ("store-key", self.store_key.is_some()),
        ]
        .into_iter()
        .find_map(|(flag, is_set)| is_set.then_some(flag))
    }

    fn password(&self) -> anyhow::Result<Option<String>> {
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            match text.trim_end_matches(['\r', '\n']) {
                "" => bail!("{} is empty", path.display()),
                password => Ok(password.to_owned()),
            }
        };
        let from_file = self.store_password_file.as_deref().map(read).transpose();
        let from_file = from_file.context("--store-password-file")?;
        Ok(from_file.or_else(|| self.store_password.as_ref().map(|password| password.0.clone())))
    }
}

/// A text that is not shown.
#[derive(Clone)]
pub(crate) struct Hidden(String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// One store, as it was written.
#[derive(Clone, Debug)]
enum StoreName {
    Memory,
    Redis(Hidden),
}

impl StoreName {
    fn read(text: String) -> Result<StoreName, String> {
        let scheme = text.split("://").next().unwrap_or_default();
        let kind = scheme.split('+').next().unwrap_or_default();
        match kind {
            "memory" if text == "memory" => Ok(StoreName::Memory),
            "redis" | "rediss" | "valkey" | "valkeys" => match text.parse::<RedisOptions>() {
                Ok(_) => Ok(StoreName::Redis(Hidden(text))),
                Err(error) => Err(error.to_string()),
            },
            "peers" | "dynamodb" => Err(format!(
                "the store `{kind}` comes in a later version; write memory or redis://host:6379"
            )),
            _ if text.contains("://") => {
                Err(format!("there is no store `{scheme}`; write memory or redis://host:6379"))
            }
            // Without a scheme it may be anything, a password too.
            _ => Err("there is no such store; write memory or redis://host:6379".into()),
        }
    }
}

/// Reads a store. What is wrong is said without repeating it: there may be a password in it.
#[derive(Clone)]
struct StoreParser;

impl TypedValueParser for StoreParser {
    type Value = StoreName;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<StoreName, clap::Error> {
        hiding(NonEmptyStringValueParser::new().try_map(StoreName::read), command, arg, value)
    }
}

/// Reads a password.
#[derive(Clone)]
struct PasswordParser;

impl TypedValueParser for PasswordParser {
    type Value = Hidden;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Hidden, clap::Error> {
        hiding(NonEmptyStringValueParser::new().map(Hidden), command, arg, value)
    }
}

fn hiding<P: TypedValueParser>(
    parser: P,
    command: &Command,
    arg: Option<&Arg>,
    value: &OsStr,
) -> Result<P::Value, clap::Error> {
    parser.parse_ref(command, arg, value).map_err(|mut error| {
        error.insert(ContextKind::InvalidValue, ContextValue::String(HIDDEN.into()));
        error
    })
}
