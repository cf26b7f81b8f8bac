//! The settings of the counter store.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command};
use tollgate_server::Config;
use tollgate_server::config::{RedisOptions, StoreChoice};

use super::values::SnapshotInterval;
use crate::quantity::{memory_size, number, positive_duration};

/// Replaces a text that may contain a password.
const HIDDEN: &str = "…";

/// The settings of the counter store.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// Store of the counters: memory, or a shared Redis or Valkey, such as
    /// redis://cache.example:6379 (also rediss, redis+sentinel, redis+cluster). Several addresses
    /// are groups that share the keys
    #[arg(
        long,
        env = "TOLLGATE_STORE",
        value_name = "STORE",
        value_delimiter = ' ',
        value_parser = StoreParser,
        default_value = "memory",
        hide_env_values = true
    )]
    store: Vec<StoreName>,
    /// Password of stores whose address has none; --store-password-file is safer
    #[arg(
        long,
        env = "TOLLGATE_STORE_PASSWORD",
        value_name = "PASSWORD",
        value_parser = PasswordParser,
        hide_env_values = true
    )]
    store_password: Option<HiddenText>,
    /// File with the store password; takes precedence over --store-password
    #[arg(long, env = "TOLLGATE_STORE_PASSWORD_FILE", value_name = "FILE")]
    store_password_file: Option<PathBuf>,
    /// Prefix of all key names in the store [default: tollgate]
    #[arg(long, env = "TOLLGATE_STORE_PREFIX", value_name = "PREFIX", hide_short_help = true)]
    store_prefix: Option<String>,
    /// Timeout of a store request [default: 40ms]
    #[arg(
        long,
        env = "TOLLGATE_STORE_TIMEOUT",
        value_name = "TIME",
        value_parser = positive_duration
    )]
    store_timeout: Option<Duration>,
    /// CA certificates (PEM) used to verify the store [default: system roots]
    #[arg(long, env = "TOLLGATE_STORE_CA", value_name = "FILE", hide_short_help = true)]
    store_ca: Option<PathBuf>,
    /// Client certificate (PEM) for the store
    #[arg(long, env = "TOLLGATE_STORE_CERT", value_name = "FILE", hide_short_help = true)]
    store_cert: Option<PathBuf>,
    /// Private key (PEM) of the client certificate for the store
    #[arg(long, env = "TOLLGATE_STORE_KEY", value_name = "FILE", hide_short_help = true)]
    store_key: Option<PathBuf>,
    /// Time between snapshots of the memory store in the data folder, or `off`: what a crash can lose
    #[arg(long, env = "TOLLGATE_SNAPSHOT", value_name = "TIME", default_value = "1s")]
    snapshot: SnapshotInterval,
    /// Maximum number of keys in the memory store [default: 16M]
    #[arg(long, env = "TOLLGATE_MAX_KEYS", value_name = "N", value_parser = number)]
    max_keys: Option<u64>,
    /// Maximum memory of the counters in the memory store, at least 16MiB [default: 2GiB]
    #[arg(long, env = "TOLLGATE_MAX_MEMORY", value_name = "SIZE", value_parser = memory_size)]
    max_memory: Option<u64>,
}

impl StoreArgs {
    /// Sets the store of a server, and the bounds of the memory store.
    pub(super) fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        config.store = self.choice()?;
        config.snapshot = match self.snapshot {
            SnapshotInterval::Every(interval) => Some(interval),
            SnapshotInterval::Off => None,
        };
        config.max_keys = self.max_keys;
        config.max_memory = self.max_memory;
        Ok(())
    }

    /// Returns the store that the settings choose.
    fn choice(&self) -> anyhow::Result<StoreChoice> {
        let mut addresses = Vec::new();
        for name in &self.store {
            match name {
                StoreName::Memory => {}
                StoreName::Redis(HiddenText(address)) => addresses.push(address.as_str()),
            }
        }
        if addresses.is_empty() {
            if let Some(flag) = self.unused_flag() {
                bail!(
                    "--{flag} has no effect on the memory store: choose another with --store redis://…"
                );
            }
            return Ok(StoreChoice::Memory);
        }
        if addresses.len() < self.store.len() {
            bail!("--store: counters are in memory or in Redis, not in both: remove one");
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
            (Some(_), None) => bail!("--store-cert needs --store-key: give both"),
            (None, Some(_)) => bail!("--store-key needs --store-cert: give both"),
        }
        Ok(StoreChoice::Redis(options))
    }

    /// Returns a flag that is set but has no effect on the memory store.
    fn unused_flag(&self) -> Option<&'static str> {
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

/// A text that is not printed.
#[derive(Clone)]
pub(crate) struct HiddenText(String);

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// One value of `--store`.
#[derive(Clone, Debug)]
enum StoreName {
    Memory,
    Redis(HiddenText),
}

impl StoreName {
    fn read(text: String) -> Result<StoreName, String> {
        let scheme = text.split("://").next().unwrap_or_default();
        let kind = scheme.split('+').next().unwrap_or_default();
        match kind {
            "memory" if text == "memory" => Ok(StoreName::Memory),
            "redis" | "rediss" | "valkey" | "valkeys" => match text.parse::<RedisOptions>() {
                Ok(_) => Ok(StoreName::Redis(HiddenText(text))),
                Err(error) => Err(error.to_string()),
            },
            "peers" | "dynamodb" => Err(format!(
                "the store `{kind}` is not available in this version; write memory or redis://host:6379"
            )),
            _ if text.contains("://") => {
                Err(format!("there is no store `{scheme}`; write memory or redis://host:6379"))
            }
            // Without a scheme the text may be anything, even a password, so it is not printed.
            _ => Err("there is no such store; write memory or redis://host:6379".into()),
        }
    }
}

/// Parses a store. Errors do not repeat the text, which may contain a password.
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
        parse_hidden(NonEmptyStringValueParser::new().try_map(StoreName::read), command, arg, value)
    }
}

/// Parses a password. Errors do not repeat it.
#[derive(Clone)]
struct PasswordParser;

impl TypedValueParser for PasswordParser {
    type Value = HiddenText;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<HiddenText, clap::Error> {
        parse_hidden(NonEmptyStringValueParser::new().map(HiddenText), command, arg, value)
    }
}

/// Runs a parser, and hides the value in its error.
fn parse_hidden<P: TypedValueParser>(
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
