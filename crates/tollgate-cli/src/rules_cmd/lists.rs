//! `tollgate lists show | set | add | remove`.

use std::io::{self, BufWriter, Write};

use anyhow::bail;
use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::{Value, json};

use crate::Outcome;
use crate::ask::{Ask, DryRun, Service, segment};
use crate::show;
use crate::style::Tone;
use crate::table::{Align, Cell};

/// Which list.
#[derive(Args, Debug)]
pub(crate) struct Which {
    /// The name of the list
    name: String,
    /// The domain it is in, if there is more than one
    #[arg(long, env = "TOLLGATE_DOMAIN")]
    domain: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The name of a list; all lists without it
    name: Option<String>,
    /// The domain it is in, if there is more than one
    #[arg(long, env = "TOLLGATE_DOMAIN")]
    domain: Option<String>,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    which: Which,
    /// Addresses, networks, names, patterns with *; "-" reads them from standard input, one a line
    #[arg(value_name = "ENTRY")]
    entries: Vec<String>,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    which: Which,
    /// What to add; "-" reads it from standard input, one a line
    #[arg(value_name = "ENTRY", required = true)]
    entries: Vec<String>,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    which: Which,
    /// What to remove; "-" reads it from standard input, one a line
    #[arg(value_name = "ENTRY", required_unless_present = "all")]
    entries: Vec<String>,
    /// Remove the whole list: the one in the rules file counts again
    #[arg(
        long,
        env = "TOLLGATE_LISTS_ALL",
        value_parser = BoolishValueParser::new(),
        conflicts_with = "entries"
    )]
    all: bool,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

fn ask<'a>(method: &'static str, which: &Which, rest: &str, dry_run: &DryRun) -> Ask<'a> {
    let path = format!("/v1/lists/{}{rest}", segment(&which.name));
    Ask::new(method, path).query(&[
        ("domain", which.domain.as_deref()),
        ("dry_run", dry_run.dry_run.then_some("true")),
    ])
}

fn entries(given: &[String]) -> anyhow::Result<Value> {
    if given != ["-"] {
        return Ok(json!({ "entries": given }));
    }
    let lines = io::read_to_string(io::stdin())?;
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(json!({ "entries": lines }))
}

pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<Outcome> {
    let Some(name) = &args.name else { return show_all(args) };
    let path = format!("/v1/lists/{}", segment(name));
    let ask = Ask::new("GET", path).query(&[("domain", args.domain.as_deref())]);
    let body = args.service.read(ask)?;
    if args.service.json {
        return show::json(&body);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for entry in body["entries"].as_array().into_iter().flatten() {
        writeln!(out, "{}", show::text(entry))?;
    }
    out.flush()?;
    Ok(Outcome::Fine)
}

fn show_all(args: &ShowArgs) -> anyhow::Result<Outcome> {
    if args.domain.is_some() {
        bail!("--domain is for one list: name it");
    }
    let body = args.service.read(Ask::new("GET", "/v1/lists"))?;
    if args.service.json {
        return show::json(&body);
    }
    let rows = body["lists"].as_array().into_iter().flatten().map(|list| {
        let entries: Vec<String> =
            list["entries"].as_array().into_iter().flatten().map(show::text).collect();
        let more = if entries.len() > 3 { ", …" } else { "" };
        let first = format!("{}{more}", entries[..entries.len().min(3)].join(", "));
        let name = Cell::new(Tone::Bold, show::text(&list["name"]));
        [name, show::text(&list["domain"]).into(), entries.len().into(), first.into()]
    });
    let head = [
        ("name", Align::Left),
        ("domain", Align::Left),
        ("entries", Align::Right),
        ("", Align::Left),
    ];
    show::table(head, rows)
}

fn done(body: &Value, verb: &str) -> String {
    let [name, touched, entries] =
        ["name", "touched", "entries"].map(|field| show::text(&body[field]));
    format!("{verb} {touched} in {name}, which has {entries} now,")
}

pub(crate) fn set(args: &SetArgs) -> anyhow::Result<Outcome> {
    let ask = ask("PUT", &args.which, "", &args.dry_run).json(&entries(&args.entries)?);
    show::change(&args.service, ask, |body| done(body, "set"))
}

pub(crate) fn add(args: &AddArgs) -> anyhow::Result<Outcome> {
    let ask = ask("POST", &args.which, "/entries", &args.dry_run).json(&entries(&args.entries)?);
    show::change(&args.service, ask, |body| done(body, "added"))
}

pub(crate) fn remove(args: &RemoveArgs) -> anyhow::Result<Outcome> {
    if args.all {
        let ask = ask("DELETE", &args.which, "", &args.dry_run);
        return show::change(&args.service, ask, |_| format!("removed {},", args.which.name));
    }
    let ask = ask("DELETE", &args.which, "/entries", &args.dry_run).json(&entries(&args.entries)?);
    show::change(&args.service, ask, |body| done(body, "removed"))
}
