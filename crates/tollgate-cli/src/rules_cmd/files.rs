//! `tollgate rules list | get | put | remove | history | rollback | audit`.

use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::Outcome;
use crate::ask::{Ask, DryRun, Reply, Service, segment};
use crate::show;
use crate::style::Tone;
use crate::table::{Align, Cell};

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The name of the rules file
    name: String,
    /// An earlier version; see `tollgate rules history`
    #[arg(long, env = "TOLLGATE_RULES_VERSION", value_name = "NUMBER")]
    version: Option<u64>,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    /// The name of the rules file
    name: String,
    /// What it is to say; "-" is standard input
    file: PathBuf,
    /// The ETag of the version you changed; without it, whatever version there is is replaced
    #[arg(long, env = "TOLLGATE_IF_MATCH", value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    /// The name of the rules file
    name: String,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// The name of the rules file
    name: String,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct RollbackArgs {
    /// The name of the rules file
    name: String,
    /// The version whose text is wanted
    #[arg(long, env = "TOLLGATE_ROLLBACK_TO", value_name = "NUMBER")]
    to: u64,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    service: Service,
}

#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    /// Only what changed this: rules/NAME, overrides/ID, lists/NAME
    #[arg(long, env = "TOLLGATE_AUDIT_SUBJECT")]
    subject: Option<String>,
    /// So many changes, the newest first
    #[arg(long, env = "TOLLGATE_AUDIT_LIMIT", default_value_t = 50)]
    limit: u64,
    /// Only those before this line of the audit
    #[arg(long, env = "TOLLGATE_AUDIT_BEFORE", value_name = "ID")]
    before: Option<u64>,
    #[command(flatten)]
    service: Service,
}

fn path(name: &str) -> String {
    format!("/v1/rules/{}", segment(name))
}

pub(crate) fn list(args: &ListArgs) -> anyhow::Result<Outcome> {
    let body = args.service.read(Ask::new("GET", "/v1/rules"))?;
    if args.service.json {
        return show::json(&body);
    }
    let rows = body["files"].as_array().into_iter().flatten().map(|file| {
        let name = Cell::new(Tone::Bold, show::text(&file["name"]));
        let [version, etag, bytes, who] =
            ["version", "etag", "bytes", "who"].map(|field| show::text(&file[field]).into());
        [name, version, etag, bytes, show::time(&file["at"]).into(), who]
    });
    let head = [
        ("name", Align::Left),
        ("version", Align::Right),
        ("etag", Align::Left),
        ("bytes", Align::Right),
        ("changed", Align::Left),
        ("by", Align::Left),
    ];
    show::table(head, rows)
}

pub(crate) fn get(args: &GetArgs) -> anyhow::Result<Outcome> {
    let mut path = path(&args.name);
    if let Some(version) = args.version {
        path.push_str(&format!("/versions/{version}"));
    }
    match args.service.ask(Ask::new("GET", path))? {
        Reply::Fine(answer) if args.service.json => {
            let text = String::from_utf8_lossy(&answer.body);
            let etag = answer.header("etag");
            show::json(&json!({ "name": args.name, "etag": etag, "text": text }))
        }
        Reply::Fine(answer) => {
            io::stdout().write_all(&answer.body)?;
            Ok(Outcome::Fine)
        }
        Reply::Missing(detail) => bail!("{detail}"),
        Reply::Wrong(problem) => bail!("{}", show::text(&problem["detail"])),
    }
}

/// The ETag of what there is; none if there is nothing.
fn current_etag(service: &Service, name: &str) -> anyhow::Result<Option<String>> {
    match service.ask(Ask::new("GET", path(name)))? {
        Reply::Fine(answer) => Ok(answer.header("etag").map(str::to_owned)),
        Reply::Missing(_) => Ok(None),
        Reply::Wrong(problem) => bail!("{}", show::text(&problem["detail"])),
    }
}

pub(crate) fn put(args: &PutArgs) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    if args.file.as_os_str() == "-" {
        io::stdin().read_to_end(&mut text).context("cannot read standard input")?;
    } else {
        let reading = || format!("cannot read {}", args.file.display());
        text = fs::read(&args.file).with_context(reading)?;
    }
    let etag = match &args.if_match {
        // A shell eats the quotes that belong to an ETag.
        Some(etag) => Some(format!("\"{}\"", etag.trim_matches('"'))),
        None => current_etag(&args.service, &args.name)?,
    };
    let ask = Ask::new("PUT", path(&args.name)).dry_run(&args.dry_run).body(text);
    let ask = match &etag {
        Some(etag) => ask.header("if-match", etag),
        None => ask.header("if-none-match", "*"),
    };
    show::change(&args.service, ask, |body| match &body["version"] {
        Value::Null => format!("putting {}", args.name),
        version => format!("{} is version {version} now,", args.name),
    })
}

pub(crate) fn remove(args: &RemoveArgs) -> anyhow::Result<Outcome> {
    let ask = Ask::new("DELETE", path(&args.name)).dry_run(&args.dry_run).header("if-match", "*");
    show::change(&args.service, ask, |_| format!("removed {},", args.name))
}

pub(crate) fn history(args: &HistoryArgs) -> anyhow::Result<Outcome> {
    let body = args.service.read(Ask::new("GET", format!("{}/history", path(&args.name))))?;
    if args.service.json {
        return show::json(&body);
    }
    let rows = body["versions"].as_array().into_iter().flatten().map(|version| {
        let [number, etag, bytes, who] =
            ["version", "etag", "bytes", "who"].map(|field| show::text(&version[field]).into());
        let removed = if version["removed"] == true { "removed" } else { "" };
        let removed = Cell::new(Tone::Denied, removed);
        [number, etag, bytes, show::time(&version["at"]).into(), who, removed]
    });
    let head = [
        ("version", Align::Right),
        ("etag", Align::Left),
        ("bytes", Align::Right),
        ("changed", Align::Left),
        ("by", Align::Left),
        ("", Align::Left),
    ];
    show::table(head, rows)
}

pub(crate) fn rollback(args: &RollbackArgs) -> anyhow::Result<Outcome> {
    let ask = Ask::new("POST", format!("{}/rollback", path(&args.name)));
    let ask = ask.dry_run(&args.dry_run).json(&json!({ "to": args.to }));
    show::change(&args.service, ask, |_| {
        format!("{} says again what version {} said,", args.name, args.to)
    })
}

pub(crate) fn audit(args: &AuditArgs) -> anyhow::Result<Outcome> {
    let (limit, before) = (args.limit.to_string(), args.before.map(|id| id.to_string()));
    let ask = Ask::new("GET", "/v1/audit").query(&[
        ("subject", args.subject.as_deref()),
        ("limit", Some(&limit)),
        ("before", before.as_deref()),
    ]);
    let body = args.service.read(ask)?;
    if args.service.json {
        return show::json(&body);
    }
    let rows = body["entries"].as_array().into_iter().flatten().map(|line| {
        let [id, who, action, subject, detail] =
            ["id", "who", "action", "subject", "detail"].map(|field| show::text(&line[field]));
        let versions = match (&line["from_version"], &line["to_version"]) {
            (_, Value::Null) => String::new(),
            (from, to) => format!("{} → {to}", show::text(from)),
        };
        let detail = if line["detail"].is_null() { String::new() } else { detail };
        let action = Cell::new(Tone::Bold, action);
        let at = show::time(&line["at"]).into();
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
    show::table(head, rows)
}
