//! `tollgate serve`, and `tollgate` alone: runs the server until a signal stops it.

mod access;
mod announce;
mod args;
mod bounds;
mod config;
mod defer;
mod doors;
mod gateway;
mod jwt;
mod logging;
mod notify;
mod public_doors;
mod settings_file;
mod store;
mod telemetry;
mod tls;
mod values;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::FromArgMatches;
use tollgate_server::rules_service::{Role, Tokens};
use tollgate_server::{Config, Server};

use crate::cli::{self, Cli, Command};
use crate::signals::{SignalAction, Signals};
use crate::{Outcome, load};
use announce::{Announcement, TlsDoors, tokens_file};
pub(crate) use args::ServeArgs;
pub(crate) use gateway::GATEWAY_HELP;
use logging::Logging;

/// The time for threads of the runtime to end; all requests are finished by then.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs a server until it stops.
pub(crate) fn run() -> anyhow::Result<Outcome> {
    let args = match load_args() {
        Ok(args) => args,
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(error) => error.exit(),
            Err(error) => return Err(error),
        },
    };
    let logs = Logging::start(args.telemetry.log, args.telemetry.log_level.clone());
    let config = config::config(&args)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        runtime.worker_threads(threads.into());
    }
    let runtime = runtime.enable_all().build()?;
    let outcome = runtime.block_on(async {
        match args.check {
            true => check(config).await,
            false => serve(&args, config, logs).await,
        }
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

/// Reads the settings: flags first, then environment variables, then the file.
fn load_args() -> anyhow::Result<ServeArgs> {
    let mut words = cli::words();
    let given = cli::parser().try_get_matches_from(&words)?;
    let (name, given) = given.subcommand().context("not a server command")?;
    let named = given.get_one::<PathBuf>("config").cloned();
    let default = || Some(PathBuf::from(settings_file::DEFAULT)).filter(|path| path.exists());
    if let Some(path) = named.or_else(default) {
        let command = cli::parser();
        let command = command.find_subcommand(name).context("not a server command")?;
        words.extend(
            settings_file::arguments(&path, command, given)?.into_iter().map(OsString::from),
        );
    }
    let all = cli::parser().try_get_matches_from(&words)?;
    let mut args = match Cli::from_arg_matches(&all)?.command {
        Command::Serve(args) => *args,
        Command::Gateway(args) => args.into_gateway()?,
        _ => anyhow::bail!("not a server command"),
    };
    if args.rules.is_none() {
        args.rules = load::default_rules().map(|path| path.display().to_string());
    }
    Ok(args)
}

async fn check(config: Config) -> anyhow::Result<Outcome> {
    tokio::task::spawn_blocking(move || Server::check(&config)).await??;
    writeln!(io::stdout(), "settings, rules, tokens and certificates are valid")?;
    Ok(Outcome::Fine)
}

async fn serve(args: &ServeArgs, config: Config, mut logs: Logging) -> anyhow::Result<Outcome> {
    // Signals are handled before the addresses are announced.
    let mut signals = Signals::listen()?;
    let data = args.access.data();
    let first = args.access.admin_tokens.is_none() && !tokens_file(&data).exists();
    let warnings = public_doors::warnings(&config);
    let tls = TlsDoors::from_config(&config);
    let store = config.store.clone();
    let server = Server::start(config).await?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let is_shown = first && io::stdout().is_terminal();
    let created_token = if is_shown { created_token(&data) } else { None };
    let addresses = server.addresses();
    let announcement = Announcement {
        args,
        addresses,
        tls,
        domains: server.domain_names(),
        has_sample_rules: server.has_sample_rules(),
        store,
        data,
        created_token,
    };
    if let Err(error) = announcement.write() {
        tracing::warn!(%error, "cannot print the addresses");
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");
    notify::send(notify::READY);
    while signals.next().await == SignalAction::Reload {
        reload(&server, &mut logs);
    }
    tracing::info!("stopping: a signal arrived");
    notify::send(notify::STOPPING);
    tokio::select! {
        () = server.stop() => tracing::info!("stopped"),
        () = signals.stop() => tracing::warn!("stopped at once: a second signal arrived"),
    }
    Ok(Outcome::Fine)
}

fn reload(server: &Server, logs: &mut Logging) {
    tracing::info!("reloading: a signal arrived");
    server.reload();
    match load_args() {
        Ok(args) => logs.set(args.telemetry.log_level),
        Err(error) => tracing::error!("the settings stay as they are: {error:#}"),
    }
}

/// Returns the write token that the first start created.
fn created_token(data: &Path) -> Option<String> {
    let tokens = Tokens::read(&tokens_file(data)).ok()?;
    tokens.secret_for(Role::Write).map(|secret| secret.reveal().to_owned())
}
