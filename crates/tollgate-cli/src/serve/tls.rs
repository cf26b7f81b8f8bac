//! The TLS settings of all doors, and of each door.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use tollgate_server::net::TlsOptions;

use super::values::TlsFile;

/// The flags and variables of one set of files: certificate, key, and CA of clients.
struct TlsFlags {
    cert: (&'static str, &'static str),
    key: (&'static str, &'static str),
    client_ca: (&'static str, &'static str),
}

macro_rules! flags {
    ($flag:literal, $variable:literal) => {
        TlsFlags {
            cert: (concat!($flag, "tls-cert"), concat!("TOLLGATE_", $variable, "TLS_CERT")),
            key: (concat!($flag, "tls-key"), concat!("TOLLGATE_", $variable, "TLS_KEY")),
            client_ca: (
                concat!($flag, "tls-client-ca"),
                concat!("TOLLGATE_", $variable, "TLS_CLIENT_CA"),
            ),
        }
    };
}

/// The flags of all doors.
const ALL: TlsFlags = flags!("", "");
/// The flags of each door, in the order of [`TlsArgs::doors`].
const DOORS: [(&str, TlsFlags); 5] = [
    ("http", flags!("http-", "HTTP_")),
    ("grpc", flags!("grpc-", "GRPC_")),
    ("resp", flags!("resp-", "RESP_")),
    ("gateway", flags!("gateway-", "GATEWAY_")),
    ("admin", flags!("admin-", "ADMIN_")),
];

/// The TLS files that are given.
#[derive(Clone, Debug, Default)]
struct TlsFiles {
    cert: Option<TlsFile>,
    key: Option<PathBuf>,
    client_ca: Option<TlsFile>,
}

/// The TLS settings of all doors, and of each door.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsArgs {
    all: TlsFiles,
    doors: [TlsFiles; 5],
}

impl TlsArgs {
    /// Returns the TLS options of a door; none without TLS.
    pub(super) fn options(&self, door: &str) -> anyhow::Result<Option<TlsOptions>> {
        let number = DOORS.iter().position(|(name, _)| *name == door).expect("a door's name");
        let (own, flags) = (&self.doors[number], &DOORS[number].1);
        let from =
            if own.cert.is_some() || own.key.is_some() { (own, flags) } else { (&self.all, &ALL) };
        let (certificate, key) = match (&from.0.cert, &from.0.key) {
            (None, None) | (Some(TlsFile::Off), None) => return self.plain(own, flags),
            (Some(TlsFile::At(cert)), Some(key)) => (cert.clone(), key.clone()),
            (Some(TlsFile::At(_)), None) => {
                bail!("--{} needs --{}: give the private key too", from.1.cert.0, from.1.key.0)
            }
            (None | Some(TlsFile::Off), Some(_)) => {
                bail!("--{} needs --{}: give the certificate too", from.1.key.0, from.1.cert.0)
            }
        };
        let client_ca = match own.client_ca.as_ref().or(self.all.client_ca.as_ref()) {
            Some(TlsFile::At(path)) => Some(path.clone()),
            Some(TlsFile::Off) | None => None,
        };
        Ok(Some(TlsOptions { certificate, key, client_ca }))
    }

    /// Returns no TLS, or an error if client certificates are required: those need TLS.
    fn plain(&self, own: &TlsFiles, flags: &TlsFlags) -> anyhow::Result<Option<TlsOptions>> {
        let all_plain = self.all.cert.is_none();
        for (files, flags, counts) in [(own, flags, true), (&self.all, &ALL, all_plain)] {
            if counts && matches!(files.client_ca, Some(TlsFile::At(_))) {
                let (ca, cert, key) = (flags.client_ca.0, flags.cert.0, flags.key.0);
                bail!("--{ca} needs TLS: give --{cert} and --{key} too");
            }
        }
        Ok(None)
    }
}

impl Args for TlsArgs {
    fn augment_args(command: Command) -> Command {
        let command = add(command.next_help_heading("TLS"), &ALL, "", false);
        let suffix = |name| match name {
            "http" => " of the HTTP door, or off",
            "grpc" => " of the gRPC door, or off",
            "resp" => " of the Redis-protocol door, or off",
            "gateway" => " of the gateway, or off",
            _ => " of the admin listener, or off",
        };
        DOORS.iter().fold(command, |command, (name, flags)| add(command, flags, suffix(name), true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn add(command: Command, flags: &TlsFlags, suffix: &str, hidden: bool) -> Command {
    let file = |(flag, variable): (&'static str, &'static str), help: &str| {
        let help = format!("{help}{suffix}");
        Arg::new(flag)
            .long(flag)
            .env(variable)
            .value_name("FILE")
            .help(help)
            .hide_short_help(hidden)
    };
    let key_help =
        format!("Private key (PEM) of the TLS certificate{}", suffix.trim_end_matches(", or off"));
    command
        .arg(file(flags.cert, "TLS certificate chain (PEM)").value_parser(value_parser!(TlsFile)))
        .arg(file(flags.key, "").help(key_help).value_parser(value_parser!(PathBuf)))
        .arg(
            file(flags.client_ca, "CA certificates (PEM) for the certificates of clients")
                .value_parser(value_parser!(TlsFile)),
        )
}

impl FromArgMatches for TlsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<TlsArgs, clap::Error> {
        let files = |flags: &TlsFlags| TlsFiles {
            cert: matches.get_one(flags.cert.0).cloned(),
            key: matches.get_one(flags.key.0).cloned(),
            client_ca: matches.get_one(flags.client_ca.0).cloned(),
        };
        Ok(TlsArgs { all: files(&ALL), doors: DOORS.each_ref().map(|(_, flags)| files(flags)) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
