//! `tollgate rules list | get | put | remove | history | rollback | audit`.

use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::Outcome;
use crate::output;
use crate::service_client::{
    DryRunArgs, ServiceClient, ServiceReply, ServiceRequest, percent_encode,
};
use crate::style::Tone;
use crate::table::{Align, Cell};

/// The arguments of `tollgate rules list`.
#[derive(Args, Debug)]
pub(crate) struct RulesListArgs {
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate rules get`.
#[derive(Args, Debug)]
pub(crate) struct RulesGetArgs {
    /// Name of the rules file
    name: String,
    /// Version to print; see `tollgate rules history` [default: the newest]
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate rules put`.
#[derive(Args, Debug)]
pub(crate) struct RulesPutArgs {
    /// Name of the rules file
    name: String,
    /// File with the new text; "-" is standard input
    file: PathBuf,
    /// ETag of the version to replace [default: the current version]
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate rules remove`.
#[derive(Args, Debug)]
pub(crate) struct RulesRemoveArgs {
    /// Name of the rules file
    name: String,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate rules history`.
#[derive(Args, Debug)]
pub(crate) struct RulesHistoryArgs {
    /// Name of the rules file
    name: String,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate rules rollback`.
#[derive(Args, Debug)]
pub(crate) struct RulesRollbackArgs {
    /// Name of the rules file
    name: String,
    /// Version to restore
    #[arg(long, value_name = "NUMBER")]
    to: u64,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    service: ServiceClient,
}

/// The arguments of `tollgate rules audit`.
#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    /// Subject of the changes: rules/NAME, overrides/ID or lists/NAME [default: all]
    #[arg(long)]
    subject: Option<String>,
    /// Number of changes, the newest first
    #[arg(long, default_value_t = 50)]
    limit: u64,
    /// Id of the audit entry that the changes precede [default: none]
    #[arg(long, value_name = "ID")]
    before: Option<u64>,
    #[command(flatten)]
    service: ServiceClient,
}

fn path(name: &str) -> String {
    format!("/v1/rules/{}", percent_encode(name))
}

pub(crate) fn list(args: &RulesListArgs) -> anyhow::Result<Outcome> {
    let body = args.service.fetch_json(ServiceRequest::new("GET", "/v1/rules"))?;
    if args.service.json {
        return output::json(&body);
    }
    let rows = body["files"].as_array().into_iter().flatten().map(|file| {
        let name = Cell::new(Tone::Bold, output::text(&file["name"]));
        let [version, etag, bytes, who] =
            ["version", "etag", "bytes", "who"].map(|field| output::text(&file[field]).into());
        [name, version, etag, bytes, output::time(&file["at"]).into(), who]
    });
    let head = [
        ("name", Align::Left),
        ("version", Align::Right),
        ("etag", Align::Left),
        ("bytes", Align::Right),
        ("changed", Align::Left),
        ("by", Align::Left),
    ];
    output::table(head, rows)
}

pub(crate) fn get(args: &RulesGetArgs) -> anyhow::Result<Outcome> {
    let mut path = path(&args.name);
    if let Some(version) = args.version {
        path.push_str(&format!("/versions/{version}"));
    }
    match args.service.send(ServiceRequest::new("GET", path))? {
        ServiceReply::Success(response) if args.service.json => {
            let text = String::from_utf8_lossy(&response.body);
            let etag = response.header("etag");
            output::json(&json!({ "name": args.name, "etag": etag, "text": text }))
        }
        ServiceReply::Success(response) => {
            io::stdout().write_all(&response.body)?;
            Ok(Outcome::Fine)
        }
        ServiceReply::NotFound(detail) => bail!("{detail}"),
        ServiceReply::InvalidRules(problem) => bail!("{}", output::text(&problem["detail"])),
    }
}

/// Returns the ETag of the current version; none if the file does not exist.
fn current_etag(service: &ServiceClient, name: &str) -> anyhow::Result<Option<String>> {
    match service.send(ServiceRequest::new("GET", path(name)))? {
        ServiceReply::Success(response) => Ok(response.header("etag").map(str::to_owned)),
        ServiceReply::NotFound(_) => Ok(None),
        ServiceReply::InvalidRules(problem) => bail!("{}", output::text(&problem["detail"])),
    }
}

pub(crate) fn put(args: &RulesPutArgs) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    if args.file.as_os_str() == "-" {
        io::stdin().read_to_end(&mut text).context("cannot read standard input")?;
    } else {
        let reading = || format!("cannot read {}", args.file.display());
        text = fs::read(&args.file).with_context(reading)?;
    }
    let etag = match &args.if_match {
        // A shell removes the quotes that belong to an ETag.
        Some(etag) => Some(format!("\"{}\"", etag.trim_matches('"'))),
        None => current_etag(&args.service, &args.name)?,
    };
    let request = ServiceRequest::new("PUT", path(&args.name)).dry_run(&args.dry_run).body(text);
    let request = match &etag {
        Some(etag) => request.header("if-match", etag),
        None => request.header("if-none-match", "*"),
    };
    output::change(&args.service, request, |body| match &body["version"] {
        Value::Null => format!("putting {}", args.name),
        version => format!("{} is version {version} now,", args.name),
    })
}

pub(crate) fn remove(args: &RulesRemoveArgs) -> anyhow::Result<Outcome> {
    let request = ServiceRequest::new("DELETE", path(&args.name))
        .dry_run(&args.dry_run)
        .header("if-match", "*");
    output::change(&args.service, request, |_| format!("removed {},", args.name))
}

pub(crate) fn history(args: &RulesHistoryArgs) -> anyhow::Result<Outcome> {
    let body = args
        .service
        .fetch_json(ServiceRequest::new("GET", format!("{}/history", path(&args.name))))?;
    if args.service.json {
        return output::json(&body);
    }
    let rows = body["versions"].as_array().into_iter().flatten().map(|version| {
        let [number, etag, bytes, who] =
            ["version", "etag", "bytes", "who"].map(|field| output::text(&version[field]).into());
        let removed = if version["removed"] == true { "removed" } else { "" };
        let removed = Cell::new(Tone::Denied, removed);
        [number, etag, bytes, output::time(&version["at"]).into(), who, removed]
    });
    let head = [
        ("version", Align::Right),
        ("etag", Align::Left),
        ("bytes", Align::Right),
        ("changed", Align::Left),
        ("by", Align::Left),
        ("", Align::Left),
    ];
    output::table(head, rows)
}

pub(crate) fn rollback(args: &RulesRollbackArgs) -> anyhow::Result<Outcome> {
    let request = ServiceRequest::new("POST", format!("{}/rollback", path(&args.name)));
    let request = request.dry_run(&args.dry_run).json(&json!({ "to": args.to }));
    output::change(&args.service, request, |_| {
        format!("restored version {} of {},", args.to, args.name)
    })
}

pub(crate) fn audit(args: &AuditArgs) -> anyhow::Result<Outcome> {
    let (limit, before) = (args.limit.to_string(), args.before.map(|id| id.to_string()));
    let request = ServiceRequest::new("GET", "/v1/audit").query(&[
        ("subject", args.subject.as_deref()),
        ("limit", Some(&limit)),
        ("before", before.as_deref()),
    ]);
    let body = args.service.fetch_json(request)?;
    if args.service.json {
        return output::json(&body);
    }
    let rows = body["entries"].as_array().into_iter().flatten().map(|entry| {
        let [id, who, action, subject, detail] =
            ["id", "who", "action", "subject", "detail"].map(|field| output::text(&entry[field]));
        let versions = match (&entry["from_version"], &entry["to_version"]) {
            (_, Value::Null) => String::new(),
            (from, to) => format!("{} → {to}", output::text(from)),
        };
        let detail = if entry["detail"].is_null() { String::new() } else { detail };
        let action = Cell::new(Tone::Bold, action);
        let at = output::time(&entry["at"]).into();
        [id.into(), at, who.into(), action, subject.into(), versions.into(), detail.into()]
    });
    let head = [
        ("id", Align::Right),
        ("at", Align::Left),
        ("who", Align::Left),
        ("did", Align::Left),
        ("what", Align::Left),
        ("versions", Align::Left),
        ("", Align::Left),
    ];
    output::table(head, rows)
}
