//! `tollgate rules serve`: runs a rules service until a signal stops it.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::json;
use tollgate_server::rules_service::{RulesService, RulesServiceOptions, Tokens};

use crate::Outcome;
use crate::signals::{SignalAction, Signals};

const SERVE_HELP: &str = "\
The first start creates two tokens in the file `tokens` of the folder: `admin` may change rules,
`limiter` may fetch them. A limiter follows the service with
  http://127.0.0.1:8082/v1/rules/bundle
and stores a copy, so that it keeps working while the service is down.

Examples:
  tollgate rules serve
  tollgate rules serve --data /var/lib/tollgate --import rules/
  tollgate rules serve --listen 0.0.0.0:8082 --tokens tokens.txt     put TLS in front of it";

/// The arguments of `tollgate rules serve`.
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct RulesServeArgs {
    /// Folder of the database and the tokens, created if missing
    #[arg(long, env = "TOLLGATE_DATA", value_name = "DIR", default_value = "tollgate-data")]
    data: PathBuf,

    /// Address of the listener
    #[arg(long, env = "TOLLGATE_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8082")]
    listen: SocketAddr,

    /// File or folder of rules to import at the start
    #[arg(long, env = "TOLLGATE_IMPORT", value_name = "FILE|DIR")]
    import: Option<PathBuf>,

    /// File of tokens, one per line as name:token or name:token:role [default: tokens in the folder]
    #[arg(long, env = "TOLLGATE_TOKENS_FILE", value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// Tokens, separated by commas
    #[arg(
        long = "token-list",
        env = "TOLLGATE_TOKENS",
        value_name = "NAME:TOKEN,…",
        hide_env_values = true,
        hide = true,
        conflicts_with = "tokens"
    )]
    token_list: Option<String>,

    /// JSON output of the address
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

pub(crate) fn run(args: &RulesServeArgs) -> anyhow::Result<Outcome> {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
    let mut options = RulesServiceOptions::new(&args.data);
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

async fn serve(args: &RulesServeArgs, service: RulesService) -> anyhow::Result<()> {
    // Signals are handled before the address is announced.
    let mut signals = Signals::listen()?;
    let listener = tokio::net::TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| {
        format!("cannot listen on {}; choose another address with --listen", args.listen)
    })?;
    let address = listener.local_addr()?;
    announce(args, &service, address)?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "tokens are sent unencrypted on this address: put TLS in front of it");
    }
    let tokens = service.live_tokens();
    let stopped = async move {
        while signals.next().await == SignalAction::Reload {
            tokens.reload();
        }
    };
    service.serve(listener, stopped).await?;
    tracing::info!("stopped");
    Ok(())
}

fn announce(
    args: &RulesServeArgs,
    service: &RulesService,
    address: SocketAddr,
) -> anyhow::Result<()> {
    let url = format!("http://{address}");
    let mut out = io::stdout().lock();
    if args.json {
        let tokens = service.created_tokens().map(|path| path.display().to_string());
        let revision = service.revision();
        writeln!(out, "{}", json!({ "url": url, "created_tokens": tokens, "revision": revision }))?;
        return Ok(out.flush()?);
    }
    writeln!(out, "rules service on {url}, revision {}", service.revision())?;
    if let Some(path) = service.created_tokens() {
        let path = path.display();
        writeln!(out, "tokens were created in {path}; to use the one that may change rules:")?;
        writeln!(out, "  export TOLLGATE_TOKEN=$(sed -n 's/^admin://p' {path})")?;
    }
    writeln!(out, "limiters fetch {url}/v1/rules/bundle")?;
    Ok(out.flush()?)
}
