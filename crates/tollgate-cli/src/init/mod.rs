//! `tollgate init`: writes a commented rules file to start from.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::BoolishValueParser;
use serde::Serialize;

use crate::Outcome;
use crate::style::Style;

/// The contents of the file.
const STARTER: &str = include_str!("starter.yaml");

/// The arguments of `tollgate init`.
#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// File to write; "-" is standard output
    #[arg(value_name = "FILE", default_value = "tollgate.yaml")]
    file: PathBuf,

    /// Overwriting of an existing file
    #[arg(long)]
    force: bool,

    /// JSON output
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct InitOutput<'a> {
    file: &'a str,
    bytes: usize,
}

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<Outcome> {
    let mut out = io::stdout().lock();
    if args.file.as_os_str() == "-" {
        out.write_all(STARTER.as_bytes())?;
        return Ok(Outcome::Fine);
    }
    write(&args.file, args.force)?;
    let file = args.file.display().to_string();
    if args.json {
        serde_json::to_writer(&mut out, &InitOutput { file: &file, bytes: STARTER.len() })?;
        writeln!(out)?;
        return Ok(Outcome::Fine);
    }
    let (style, program) = (Style::when(io::stdout().is_terminal()), crate::program());
    writeln!(out, "Wrote {}. Read it: every line says what it is for.", style.bold(&file))?;
    writeln!(out, "\n{}", style.bold("Try next"))?;
    let file = quoted(&file);
    for command in [
        format!("validate {file}"),
        format!("test {file}"),
        format!("explain {file} POST /login ip=203.0.113.7"),
        format!("simulate {file} --log access.log"),
    ] {
        writeln!(out, "  {program} {command}")?;
    }
    Ok(Outcome::Fine)
}

fn write(path: &Path, force: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let shown = path.display();
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{shown} is there already: name another file, or overwrite it with --force")
        }
        opened => opened.with_context(|| format!("cannot write {shown}"))?,
    };
    file.write_all(STARTER.as_bytes()).with_context(|| format!("cannot write {shown}"))
}

/// A file's name the way a shell takes it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@".contains(c);
    match !name.is_empty() && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Door, Rules};

    use super::*;

    #[test]
    fn the_starter_is_right_and_its_cases_pass() {
        let rules: Rules = STARTER.parse().unwrap_or_else(|found| panic!("{found}"));
        assert!(rules.warnings().is_empty(), "{}", rules.warnings());
        for door in Door::ALL {
            assert!(rules.unsupported(door).is_empty(), "{}", rules.unsupported(door));
        }
        let cases = rules.run_cases();
        assert!(cases.len() >= 4);
        for case in cases {
            assert!(case.passed(), "{}: {}", case.name, case.failures);
        }
        assert!(STARTER.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn names_are_quoted_for_a_shell() {
        assert_eq!(quoted("rules/shop.yaml"), "rules/shop.yaml");
        assert_eq!(quoted("it's here.yaml"), r"'it'\''s here.yaml'");
    }
}
