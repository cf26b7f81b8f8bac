//! `tollgate top`: who is noisy.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::Outcome;
use crate::ask::{Ask, Service};
use crate::show;
use crate::style::Tone;
use crate::table::{Align, Cell};
use crate::text;

/// How often it looks again.
const EVERY: Duration = Duration::from_secs(2);
/// To the first line and column, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[J";

const TOP_HELP: &str = "\
Counts are of this minute and the one before, by a sketch that may count a key too high, never
too low.

Examples:
  tollgate top
  tollgate top --by denied --limit 50
  tollgate top --by growth --watch";

#[derive(Args, Debug)]
#[command(after_help = TOP_HELP)]
pub(crate) struct TopArgs {
    /// What makes a key noisy
    #[arg(long, env = "TOLLGATE_TOP_BY", value_enum, default_value_t = By::Requests)]
    by: By,
    /// Only keys of this domain
    #[arg(long, env = "TOLLGATE_DOMAIN")]
    domain: Option<String>,
    /// How many keys to name
    #[arg(long, env = "TOLLGATE_TOP", value_name = "N", default_value_t = 20)]
    limit: u16,
    /// Look again and again, on a terminal
    #[arg(long, env = "TOLLGATE_WATCH", value_parser = BoolishValueParser::new())]
    watch: bool,
    #[command(flatten)]
    service: Service,
}

/// What makes a key noisy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Most requests
    Requests,
    /// Most refusals
    Denied,
    /// This minute against the one before
    Growth,
}

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<Outcome> {
    let again = args.watch && io::stdout().is_terminal() && !args.service.json;
    loop {
        let by = args.by.to_possible_value();
        let limit = args.limit.to_string();
        let ask = Ask::new("GET", "/v1/top").query(&[
            ("by", by.as_ref().map(|by| by.get_name())),
            ("domain", args.domain.as_deref()),
            ("limit", Some(&limit)),
        ]);
        let body = args.service.read(ask)?;
        if args.service.json {
            return show::json(&body);
        }
        if again {
            write!(io::stdout(), "{CLEAR}")?;
        }
        table(args.by, &body)?;
        if !again {
            return Ok(Outcome::Fine);
        }
        std::thread::park_timeout(EVERY);
    }
}

fn table(by: By, body: &Value) -> anyhow::Result<()> {
    let keys = body["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    if keys.is_empty() {
        writeln!(io::stdout(), "nobody has asked for anything lately")?;
        return Ok(());
    }
    let counts = [("requests", By::Requests), ("denied", By::Denied), ("growth", By::Growth)];
    let rows = keys.iter().map(|key| {
        let [requests, denied, growth] = counts.map(|(field, column)| {
            let tone = match column == by {
                true => Tone::Bold,
                false => Tone::Plain,
            };
            Cell::new(tone, show::text(&key[field]))
        });
        let mut name = text::rule_key(key["key"].as_str().unwrap_or_default());
        if key["banned"] == true {
            name.push_str(" (banned)");
        }
        [
            requests,
            denied,
            growth,
            domain(&key["domain"]),
            show::text(&key["rule"]).into(),
            name.into(),
        ]
    });
    let head = [
        ("requests", Align::Right),
        ("denied", Align::Right),
        ("growth", Align::Right),
        ("domain", Align::Left),
        ("rule", Align::Left),
        ("key", Align::Left),
    ];
    show::table(head, rows)?;
    Ok(())
}

fn domain(value: &Value) -> Cell {
    match value.as_str() {
        None | Some("") => Cell::new(Tone::Dim, "-"),
        Some(_) => show::text(value).into(),
    }
}
