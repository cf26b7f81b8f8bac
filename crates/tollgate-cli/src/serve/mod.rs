//! `tollgate serve`, and `tollgate` alone: the server, until it is told to stop.

mod announce;
mod args;
mod config;
mod defer;
mod file;
mod gateway;
mod logs;
mod notify;
mod public;
mod store;
mod tls;
mod values;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches};
use tollgate_server::rules_service::{Role, Tokens};
use tollgate_server::{Config, Server};

use crate::Outcome;
use crate::cli::{Cli, Command};
use crate::signals::{Signals, Told};
use announce::{Announcement, Secured, tokens_file};
pub(crate) use args::ServeArgs;
pub(crate) use gateway::GATEWAY_HELP;
use logs::Logs;
use values::LogFormat;

/// The command that `tollgate` alone stands for.
const SERVE: &str = "serve";
/// How long threads of the runtime may take to end; nothing is under way any more.
const LAST: Duration = Duration::from_millis(200);

/// Starts a server and waits for its end.
pub(crate) fn run() -> anyhow::Result<Outcome> {
    let args = match settle() {
        Ok(args) => args,
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(error) => error.exit(),
            Err(error) => return Err(error),
        },
    };
    let logs = Logs::start(
        args.log.unwrap_or(LogFormat::Text),
        args.log_level.clone().unwrap_or_default(),
    );
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
    runtime.shutdown_timeout(LAST);
    outcome
}

/// Flags, then variables, then the file.
fn settle() -> anyhow::Result<ServeArgs> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.len() < 2 {
        words.truncate(1);
        words.push(SERVE.into());
    }
    let given = Cli::command().try_get_matches_from(&words)?;
    let (name, given) = given.subcommand().context("not a server")?;
    let named = given.get_one::<PathBuf>("config").cloned();
    let usual = || Some(PathBuf::from(file::DEFAULT)).filter(|path| path.exists());
    if let Some(path) = named.or_else(usual) {
        let command = Cli::command();
        let command = command.find_subcommand(name).context("not a server")?;
        words.extend(file::arguments(&path, command, given)?.into_iter().map(OsString::from));
    }
    let all = Cli::command().try_get_matches_from(&words)?;
    match Cli::from_arg_matches(&all)?.command {
        Some(Command::Serve(args)) => Ok(*args),
        Some(Command::Gateway(args)) => args.into_gateway(),
        _ => anyhow::bail!("not a server"),
    }
}

async fn check(config: Config) -> anyhow::Result<Outcome> {
    tokio::task::spawn_blocking(move || Server::check(&config)).await??;
    writeln!(io::stdout(), "settings, rules, tokens and certificates are right")?;
    Ok(Outcome::Fine)
}

async fn serve(args: &ServeArgs, config: Config, mut logs: Logs) -> anyhow::Result<Outcome> {
    // Before anybody is told that we are here.
    let mut signals = Signals::listen()?;
    let data = config::data(args);
    let first = args.admin_tokens.is_none() && !tokens_file(&data).exists();
    let warnings = public::warnings(&config);
    let tls = Secured::of(&config);
    let store = config.store.clone();
    let server = Server::start(config).await?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let made = if first { made_token(&data) } else { None };
    let addresses = server.addresses();
    let announcement = Announcement { args, addresses, tls, store, data, made };
    if let Err(error) = announcement.write() {
        tracing::warn!(%error, "nobody reads where it listens");
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");
    notify::tell(notify::READY);
    while signals.next().await == Told::Reload {
        reload(&server, &mut logs);
    }
    tracing::info!("told to stop");
    notify::tell(notify::STOPPING);
    tokio::select! {
        () = server.stop() => tracing::info!("stopped"),
        () = signals.stop() => tracing::warn!("told again: stopped at once"),
    }
    Ok(Outcome::Fine)
}

fn reload(server: &Server, logs: &mut Logs) {
    tracing::info!("told to read everything again");
    server.reload();
    match settle() {
        Ok(args) => logs.set(args.log_level.unwrap_or_default()),
        Err(error) => tracing::error!("the old settings go on: {error:#}"),
    }
}

/// The token for changes that the first start made.
fn made_token(data: &Path) -> Option<String> {
    let tokens = Tokens::read(&tokens_file(data)).ok()?;
    tokens.secret_for(Role::Write).map(|secret| secret.reveal().to_owned())
}
