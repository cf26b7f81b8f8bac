//! `tollgate rules serve`: a rules service, until it is told to stop.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::json;
use tollgate_server::rules_service::{Options, RulesService, Tokens};

use crate::Outcome;
use crate::signals::Signals;

const SERVE_HELP: &str = "\
At the first start two tokens are made and kept in the file `tokens` of the folder: `admin` may
change rules, `limiter` may fetch them. A limiter follows the service with
  http://127.0.0.1:8082/v1/rules/bundle
and keeps a copy, so that it goes on while the service is down.

Examples:
  tollgate rules serve
  tollgate rules serve --data /var/lib/tollgate --import rules/
  tollgate rules serve --listen 0.0.0.0:8082 --tokens tokens.txt     put TLS in front of it";

#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// The folder of the database and the tokens; made if need be
    #[arg(long, env = "TOLLGATE_DATA", value_name = "DIR", default_value = "tollgate-data")]
    data: PathBuf,

    /// The address to listen on
    #[arg(long, env = "TOLLGATE_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8082")]
    listen: SocketAddr,

    /// Rules to take over before anything else: a file, or a folder of files
    #[arg(long, env = "TOLLGATE_IMPORT", value_name = "FILE|DIR")]
    import: Option<PathBuf>,

    /// A file of tokens, one a line as name:token or name:token:role; instead of those in the folder
    #[arg(long, env = "TOLLGATE_TOKENS_FILE", value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// The tokens themselves, with commas in between
    #[arg(
        long = "token-list",
        env = "TOLLGATE_TOKENS",
        value_name = "NAME:TOKEN,…",
        hide_env_values = true,
        hide = true,
        conflicts_with = "tokens"
    )]
    token_list: Option<String>,

    /// Say where it listens in JSON
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Outcome> {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
    let mut options = Options::new(&args.data);
    options.tokens = match (&args.tokens, &args.token_list) {
        (Some(path), _) => Some(Tokens::read(path)?),
        (None, Some(list)) => Some(list.parse()?),
        (None, None) => None,
    };
    let service = RulesService::open(options)?;
    if let Some(path) = &args.import {
        let imported = service.import(path).with_context(|| path.display().to_string())?;
        tracing::info!(files = imported, from = %path.display(), "imported");
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(serve(args, service))?;
    Ok(Outcome::Fine)
}

async fn serve(args: &ServeArgs, service: RulesService) -> anyhow::Result<()> {
    // Before anybody is told that we are here.
    let mut signals = Signals::listen()?;
    let listener = tokio::net::TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    announce(args, &service, address)?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "tokens travel in the clear here: put TLS in front of it");
    }
    service.serve(listener, signals.stop()).await?;
    tracing::info!("stopped");
    Ok(())
}

fn announce(args: &ServeArgs, service: &RulesService, address: SocketAddr) -> anyhow::Result<()> {
    let url = format!("http://{address}");
    let mut out = io::stdout().lock();
    if args.json {
        let tokens = service.made_tokens().map(|path| path.display().to_string());
        let revision = service.revision();
        writeln!(out, "{}", json!({ "url": url, "made_tokens": tokens, "revision": revision }))?;
        return Ok(out.flush()?);
    }
    writeln!(out, "rules service on {url}, revision {}", service.revision())?;
    if let Some(path) = service.made_tokens() {
        let path = path.display();
        writeln!(out, "tokens were made and are in {path}; to use the one that may change rules:")?;
        writeln!(out, "  export TOLLGATE_TOKEN=$(sed -n 's/^admin://p' {path})")?;
    }
    writeln!(out, "limiters fetch {url}/v1/rules/bundle")?;
    Ok(out.flush()?)
}
