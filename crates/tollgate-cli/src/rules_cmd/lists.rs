//! `tollgate lists show | set | add | remove`.

use std::io::{self, BufWriter, Write};

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::Outcome;
use crate::output;
use crate::service_client::{DryRunArgs, ServiceClient, ServiceRequest, percent_encode};
use crate::style::Tone;
use crate::table::{Align, Cell};

/// The name of a list and its domain.
#[derive(Args, Debug)]
pub(crate) struct ListName {
    /// Name of the list
    name: String,
    /// Domain of the list, if there are several
    #[arg(long)]
    domain: Option<String>,
}

/// The arguments of `tollgate lists show`.
#[derive(Args, Debug)]
pub(crate) struct ListsShowArgs {
    /// Name of the list [default: all lists]
    name: Option<String>,
    /// Domain of the list, if there are several
    #[arg(long)]
    domain: Option<String>,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate lists set`.
#[derive(Args, Debug)]
pub(crate) struct ListsSetArgs {
    #[command(flatten)]
    list: ListName,
    /// Addresses, networks, names or patterns with *; "-" reads them from standard input, one per line
    #[arg(value_name = "ENTRY")]
    entries: Vec<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate lists add`.
#[derive(Args, Debug)]
pub(crate) struct ListsAddArgs {
    #[command(flatten)]
    list: ListName,
    /// Entries to add; "-" reads them from standard input, one per line
    #[arg(value_name = "ENTRY", required = true)]
    entries: Vec<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate lists remove`.
#[derive(Args, Debug)]
pub(crate) struct ListsRemoveArgs {
    #[command(flatten)]
    list: ListName,
    /// Entries to remove; "-" reads them from standard input, one per line
    #[arg(value_name = "ENTRY", required_unless_present = "all")]
    entries: Vec<String>,
    /// Removal of the whole list, which restores the list of the rules file
    #[arg(long, conflicts_with = "entries")]
    all: bool,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

fn request<'a>(
    method: &'static str,
    list: &ListName,
    rest: &str,
    dry_run: &DryRunArgs,
) -> ServiceRequest<'a> {
    let path = format!("/v1/lists/{}{rest}", percent_encode(&list.name));
    ServiceRequest::new(method, path).query(&[
        ("domain", list.domain.as_deref()),
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

pub(crate) fn show(args: &ListsShowArgs) -> anyhow::Result<Outcome> {
    let Some(name) = &args.name else { return show_all(args) };
    let path = format!("/v1/lists/{}", percent_encode(name));
    let request = ServiceRequest::new("GET", path).query(&[("domain", args.domain.as_deref())]);
    let body = args.service.fetch_json(request)?;
    if args.service.json {
        return output::json(&body);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for entry in body["entries"].as_array().into_iter().flatten() {
        writeln!(out, "{}", output::text(entry))?;
    }
    out.flush()?;
    Ok(Outcome::Fine)
}

fn show_all(args: &ListsShowArgs) -> anyhow::Result<Outcome> {
    if args.domain.is_some() {
        bail!("--domain needs the name of a list: add one");
    }
    let body = args.service.fetch_json(ServiceRequest::new("GET", "/v1/lists"))?;
    if args.service.json {
        return output::json(&body);
    }
    let rows = body["lists"].as_array().into_iter().flatten().map(|list| {
        let entries: Vec<String> =
            list["entries"].as_array().into_iter().flatten().map(output::text).collect();
        let more = if entries.len() > 3 { ", …" } else { "" };
        let first = format!("{}{more}", entries[..entries.len().min(3)].join(", "));
        let name = Cell::new(Tone::Bold, output::text(&list["name"]));
        [name, output::text(&list["domain"]).into(), entries.len().into(), first.into()]
    });
    let head = [
        ("name", Align::Left),
        ("domain", Align::Left),
        ("entries", Align::Right),
        ("", Align::Left),
    ];
    output::table(head, rows)
}

fn summary(body: &Value, verb: &str) -> String {
    let [name, touched, entries] =
        ["name", "touched", "entries"].map(|field| output::text(&body[field]));
    format!("{verb} {touched} in {name}, which has {entries} now,")
}

pub(crate) fn set(args: &ListsSetArgs) -> anyhow::Result<Outcome> {
    let request = request("PUT", &args.list, "", &args.dry_run).json(&entries(&args.entries)?);
    output::change(&args.service, request, |body| summary(body, "set"))
}

pub(crate) fn add(args: &ListsAddArgs) -> anyhow::Result<Outcome> {
    let request =
        request("POST", &args.list, "/entries", &args.dry_run).json(&entries(&args.entries)?);
    output::change(&args.service, request, |body| summary(body, "added"))
}

pub(crate) fn remove(args: &ListsRemoveArgs) -> anyhow::Result<Outcome> {
    if args.all {
        let request = request("DELETE", &args.list, "", &args.dry_run);
        return output::change(&args.service, request, |_| format!("removed {},", args.list.name));
    }
    let request =
        request("DELETE", &args.list, "/entries", &args.dry_run).json(&entries(&args.entries)?);
    output::change(&args.service, request, |body| summary(body, "removed"))
}
