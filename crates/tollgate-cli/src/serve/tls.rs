//! TLS of all doors, and of each.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use tollgate_server::net::TlsOptions;

use super::values::DoorFile;

/// One set of files: the flags and variables of a certificate, its key, and who vouches for clients.
struct Flags {
    cert: (&'static str, &'static str),
    key: (&'static str, &'static str),
    client_ca: (&'static str, &'static str),
}

macro_rules! flags {
    ($flag:literal, $variable:literal) => {
        Flags {
            cert: (concat!($flag, "tls-cert"), concat!("TOLLGATE_", $variable, "TLS_CERT")),
            key: (concat!($flag, "tls-key"), concat!("TOLLGATE_", $variable, "TLS_KEY")),
            client_ca: (
                concat!($flag, "tls-client-ca"),
                concat!("TOLLGATE_", $variable, "TLS_CLIENT_CA"),
            ),
        }
    };
}

const ALL: Flags = flags!("", "");
/// In the order of [`TlsArgs::doors`].
const DOORS: [(&str, Flags); 5] = [
    ("http", flags!("http-", "HTTP_")),
    ("grpc", flags!("grpc-", "GRPC_")),
    ("resp", flags!("resp-", "RESP_")),
    ("gateway", flags!("gateway-", "GATEWAY_")),
    ("admin", flags!("admin-", "ADMIN_")),
];

/// Files of TLS as they were given.
#[derive(Clone, Debug, Default)]
struct Files {
    cert: Option<DoorFile>,
    key: Option<PathBuf>,
    client_ca: Option<DoorFile>,
}

/// TLS of all doors, and of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsArgs {
    all: Files,
    doors: [Files; 5],
}

impl TlsArgs {
    /// What a door speaks.
    pub(super) fn of(&self, door: &str) -> anyhow::Result<Option<TlsOptions>> {
        let number = DOORS.iter().position(|(name, _)| *name == door).expect("a door's name");
        let (own, flags) = (&self.doors[number], &DOORS[number].1);
        let from =
            if own.cert.is_some() || own.key.is_some() { (own, flags) } else { (&self.all, &ALL) };
        let (certificate, key) = match (&from.0.cert, &from.0.key) {
            (None, None) | (Some(DoorFile::Off), None) => return self.plain(own, flags),
            (Some(DoorFile::At(cert)), Some(key)) => (cert.clone(), key.clone()),
            (Some(DoorFile::At(_)), None) => {
                bail!("--{} comes with --{}: give the private key too", from.1.cert.0, from.1.key.0)
            }
            (None | Some(DoorFile::Off), Some(_)) => {
                bail!("--{} comes with --{}: give the certificate too", from.1.key.0, from.1.cert.0)
            }
        };
        let client_ca = match own.client_ca.as_ref().or(self.all.client_ca.as_ref()) {
            Some(DoorFile::At(path)) => Some(path.clone()),
            Some(DoorFile::Off) | None => None,
        };
        Ok(Some(TlsOptions { certificate, key, client_ca }))
    }

    /// Without TLS there are no client certificates: who asked for them must not be let down.
    fn plain(&self, own: &Files, flags: &Flags) -> anyhow::Result<Option<TlsOptions>> {
        let all_plain = self.all.cert.is_none();
        for (files, flags, counts) in [(own, flags, true), (&self.all, &ALL, all_plain)] {
            if counts && matches!(files.client_ca, Some(DoorFile::At(_))) {
                let (ca, cert, key) = (flags.client_ca.0, flags.cert.0, flags.key.0);
                bail!("--{ca} needs TLS: give --{cert} and --{key} too");
            }
        }
        Ok(None)
    }
}

impl Args for TlsArgs {
    fn augment_args(command: Command) -> Command {
        let command = add(command, &ALL, "", false);
        let of = |name| match name {
            "http" => " of the HTTP door, or off",
            "grpc" => " of the gRPC door, or off",
            "resp" => " of the door of the Redis protocol, or off",
            "gateway" => " of the gateway, or off",
            _ => " of the admin API's own address, or off",
        };
        DOORS.iter().fold(command, |command, (name, flags)| add(command, flags, of(name), true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn add(command: Command, flags: &Flags, of: &str, hidden: bool) -> Command {
    let file = |(flag, variable): (&'static str, &'static str), help: &str| {
        let help = format!("{help}{of}");
        Arg::new(flag)
            .long(flag)
            .env(variable)
            .value_name("FILE")
            .help(help)
            .hide_short_help(hidden)
    };
    let key_help =
        format!("The private key of that certificate{}", of.trim_end_matches(", or off"));
    command
        .arg(
            file(flags.cert, "A certificate in PEM, with those that vouch for it: TLS")
                .value_parser(value_parser!(DoorFile)),
        )
        .arg(file(flags.key, "").help(key_help).value_parser(value_parser!(PathBuf)))
        .arg(
            file(flags.client_ca, "Who must vouch for clients, in PEM: client certificates")
                .value_parser(value_parser!(DoorFile)),
        )
}

impl FromArgMatches for TlsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<TlsArgs, clap::Error> {
        let files = |flags: &Flags| Files {
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
