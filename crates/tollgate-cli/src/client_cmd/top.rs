//! `tollgate top`: the busiest keys of a running server.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::Outcome;
use crate::output;
use crate::service_client::{ServiceClient, ServiceRequest};
use crate::style::Tone;
use crate::table::{Align, Cell};

/// The interval of `--watch`.
const INTERVAL: Duration = Duration::from_secs(2);
/// The control sequence that clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[J";

const TOP_HELP: &str = "\
Counts cover this minute and the one before, and are estimates.

growth is by how many requests a minute the key has become busier: the requests of this minute,
extrapolated to a whole one, less those of the minute before. 0 is as busy as before, a negative number
is calmer. In the first ten seconds of a minute it is extrapolated from ten seconds.

`(missing)` in a key is an attribute that the requests lack; see `per` of the rule.

Examples:
  tollgate top
  tollgate top --by denied --limit 50
  tollgate top --by growth --watch";

/// The arguments of `tollgate top`.
#[derive(Args, Debug)]
#[command(after_help = TOP_HELP)]
pub(crate) struct TopArgs {
    /// Order of the keys
    #[arg(long, value_enum, default_value_t = TopOrder::Requests)]
    by: TopOrder,
    /// Domain of the keys [default: all]
    #[arg(long)]
    domain: Option<String>,
    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u16,
    /// Repeated output, on a terminal
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    service: ServiceClient,
}

/// An order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TopOrder {
    /// Most requests
    Requests,
    /// Most denied requests
    Denied,
    /// Most additional requests a minute, compared with the minute before
    Growth,
}

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<Outcome> {
    let repeat = args.watch && io::stdout().is_terminal() && !args.service.json;
    loop {
        let by = args.by.to_possible_value();
        let limit = args.limit.to_string();
        let request = ServiceRequest::new("GET", "/v1/top").query(&[
            ("by", by.as_ref().map(|by| by.get_name())),
            ("domain", args.domain.as_deref()),
            ("limit", Some(&limit)),
        ]);
        let body = args.service.fetch_json(request)?;
        if args.service.json {
            return output::json(&body);
        }
        if repeat {
            write!(io::stdout(), "{CLEAR}")?;
        }
        table(args.by, &body)?;
        if !repeat {
            return Ok(Outcome::Fine);
        }
        std::thread::park_timeout(INTERVAL);
    }
}

fn table(by: TopOrder, body: &Value) -> anyhow::Result<()> {
    let keys = body["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    if keys.is_empty() {
        writeln!(io::stdout(), "no requests in the last two minutes")?;
        return Ok(());
    }
    let counts = [
        ("requests", TopOrder::Requests),
        ("denied", TopOrder::Denied),
        ("growth", TopOrder::Growth),
    ];
    let rows = keys.iter().map(|key| {
        let [requests, denied, growth] = counts.map(|(field, column)| {
            let tone = match column == by {
                true => Tone::Bold,
                false => Tone::Plain,
            };
            Cell::new(tone, output::text(&key[field]))
        });
        let (rule, mut name) = output::rule_and_key(key);
        if key["banned"] == true {
            name.push_str(" (banned)");
        }
        [requests, denied, growth, domain(&key["domain"]), rule.into(), name.into()]
    });
    let head = [
        ("requests", Align::Right),
        ("denied", Align::Right),
        ("growth", Align::Right),
        ("domain", Align::Left),
        ("rule", Align::Left),
        ("key", Align::Left),
    ];
    output::table(head, rows)?;
    Ok(())
}

fn domain(value: &Value) -> Cell {
    match value.as_str() {
        None | Some("") => Cell::new(Tone::Dim, "-"),
        Some(_) => output::text(value).into(),
    }
}
