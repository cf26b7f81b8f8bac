//! `cargo xtask fuzz`: what strangers might write, thrown at the parsers for a bounded time.
//!
//! The targets live in `fuzz/`, a crate outside the workspace. Each starts from the seeds kept
//! there, from the rules of `examples/` and the wrong files of the tests, and goes on from what
//! earlier runs found (`fuzz/corpus/`). An input that breaks a target is kept in `fuzz/artifacts/`.
//!
//! No sanitizer: there is no `unsafe` to watch, and without one a stable compiler will do.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::sh::{self, Stream};
use crate::tools::{self, Installer};

const CRATE: &str = "fuzz";
const TARGETS: [&str; 6] = ["rules", "limit", "key", "envoy", "expression", "resp"];
const SECONDS: u64 = 20;
/// One input that takes this long hangs; most take less than a millisecond.
const SECONDS_FOR_ONE: u64 = 20;
const MEGABYTES: u64 = 1_024;
/// What is wrong with a longer text is wrong with a shorter one too.
const MAX_BYTES: u64 = 8 << 10;

pub(crate) fn run(args: &[&str]) -> Result {
    let (seconds, targets) = options(args)?;
    tools::ensure("cargo-fuzz", Installer::Cargo("cargo-fuzz"))?;
    let root = sh::root();
    // The versions that are shipped are those to be tried.
    fs::copy(root.join("Cargo.lock"), root.join(CRATE).join("Cargo.lock"))?;
    for target in &targets {
        sh::run(&mut sh::cargo(&["fuzz", "build", "--sanitizer", "none", target]))?;
    }
    let fared: Result<Vec<Row>> =
        targets.iter().map(|target| fuzz(&root, target, seconds)).collect();
    let rows = fared?;
    println!("\n{}", table(&rows));
    match rows.iter().all(|row| row.crashes.is_empty() && row.ended_well) {
        true => Ok(()),
        false => Err(how_to_reproduce(&rows).into()),
    }
}

fn options<'a>(args: &[&'a str]) -> Result<(u64, Vec<&'a str>)> {
    let (mut seconds, mut targets) = (SECONDS, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--seconds" => {
                let number = args.next().and_then(|number| number.parse().ok());
                seconds = number.filter(|number| *number > 0).ok_or("--seconds needs a number")?;
            }
            name if TARGETS.contains(&name) => targets.push(name),
            name => {
                let known = TARGETS.join(", ");
                return Err(format!("no fuzz target {name:?}: there are {known}").into());
            }
        }
    }
    if targets.is_empty() {
        targets.extend(TARGETS);
    }
    Ok((seconds, targets))
}

/// How one target fared.
#[derive(Debug, Default)]
struct Row {
    target: String,
    runs: u64,
    per_second: u64,
    corpus: usize,
    /// The files that broke it.
    crashes: Vec<String>,
    ended_well: bool,
}

fn fuzz(root: &Path, target: &str, seconds: u64) -> Result<Row> {
    let corpus = root.join(CRATE).join("corpus").join(target);
    copy_seeds(root, target, &corpus)?;
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-timeout={SECONDS_FOR_ONE}"),
        format!("-rss_limit_mb={MEGABYTES}"),
        format!("-max_len={MAX_BYTES}"),
        format!("-dict={CRATE}/words.dict"),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
        "-print_funcs=0".to_owned(),
    ];
    let run = &mut sh::cargo(&["fuzz", "run", "--sanitizer", "none", target, "--"]);
    let (ended_well, said) = sh::tee(run.args(limits), Stream::Stderr)?;
    Ok(Row {
        target: target.to_owned(),
        runs: statistic(&said, "number_of_executed_units"),
        per_second: statistic(&said, "average_exec_per_sec"),
        corpus: names(&corpus)?.len(),
        crashes: said.lines().filter_map(|line| crash(root, line)).collect(),
        ended_well,
    })
}

/// Reads `artifact_prefix='…'; Test unit written to …/crash-4711`; the path is relative to the root.
fn crash(root: &Path, line: &str) -> Option<String> {
    let (_, path) = line.split_once("Test unit written to ")?;
    let path = Path::new(path.trim());
    Some(path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned())
}

/// Reads `stat::number_of_executed_units: 4711`.
fn statistic(said: &str, name: &str) -> u64 {
    let number = |line: &str| -> Option<u64> {
        line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok()
    };
    said.lines().rev().find_map(number).unwrap_or(0)
}

/// Puts what a target starts from where it looks for it, under names that do not clash.
fn copy_seeds(root: &Path, target: &str, corpus: &Path) -> Result {
    fs::create_dir_all(corpus)?;
    let own = root.join(CRATE).join("seeds").join(target);
    let mut folders = vec![own];
    if target == "rules" {
        folders.push(root.join("examples/rules"));
        folders.push(root.join("crates/tollgate/tests/diagnostics"));
    }
    for (number, folder) in folders.iter().enumerate() {
        for seed in files_below(folder)? {
            let kept = number == 0 || seed.extension().is_some_and(|ending| ending == "yaml");
            if let (true, Some(name)) = (kept, seed.strip_prefix(folder)?.to_str()) {
                let name = format!("seed-{number}-{}", name.replace(['/', '\\'], "-"));
                fs::copy(&seed, corpus.join(name))?;
            }
        }
    }
    Ok(())
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

/// The names of the files in a folder; none if it does not exist.
fn names(folder: &Path) -> Result<Vec<String>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    Ok(files_below(folder)?.iter().filter_map(name).collect())
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "{:<12}{:>12}{:>10}{:>10}{:>10}",
        "target", "runs", "runs/s", "corpus", "crashes"
    )];
    lines.extend(rows.iter().map(|row| {
        let Row { target, runs, per_second, corpus, crashes, .. } = row;
        format!("{target:<12}{runs:>12}{per_second:>10}{corpus:>10}{:>10}", crashes.len())
    }));
    lines.join("\n")
}

fn how_to_reproduce(rows: &[Row]) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let target = &row.target;
        for input in &row.crashes {
            lines.push(format!("{target} breaks on {input}; see it again:"));
            lines.push(format!("  cargo fuzz run -s none {target} {input}"));
            lines.push(format!("  cargo fuzz tmin -s none {target} {input}   # a shorter one"));
        }
        if row.crashes.is_empty() && !row.ended_well {
            lines.push(format!("{target} did not run to its end: see above"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_seconds_are_chosen() {
        assert_eq!(options(&[]).unwrap(), (SECONDS, TARGETS.to_vec()));
        assert_eq!(options(&["key", "--seconds", "5"]).unwrap(), (5, vec!["key"]));
        for wrong in [&["kye"][..], &["--seconds"], &["--seconds", "0"]] {
            assert!(options(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_target_is_declared_and_has_seeds() {
        let folder = sh::root().join(CRATE);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        for target in TARGETS {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(!names(&folder.join("seeds").join(target)).unwrap().is_empty(), "{target}");
        }
    }

    #[test]
    fn figures_are_read_and_shown() {
        let said = "Done 12 runs\nstat::number_of_executed_units: 4711\nstat::peak_rss_mb: 5\n";
        assert_eq!(statistic(said, "number_of_executed_units"), 4_711);
        assert_eq!(statistic(said, "average_exec_per_sec"), 0);
        let row = Row { target: "key".into(), runs: 4_711, ended_well: true, ..Row::default() };
        let table = table(&[row]);
        let words: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(words, ["key", "4711", "0", "0", "0"]);
    }

    #[test]
    fn a_crash_says_how_to_see_it_again() {
        let line = "artifact_prefix='x/'; Test unit written to /here/fuzz/artifacts/key/crash-1";
        let crashes = crash(Path::new("/here"), line).into_iter().collect();
        let row = Row { target: "key".into(), crashes, ..Row::default() };
        let text = how_to_reproduce(&[row]);
        assert!(text.contains("cargo fuzz run -s none key fuzz/artifacts/key/crash-1"), "{text}");
        let text = how_to_reproduce(&[Row { target: "key".into(), ..Row::default() }]);
        assert!(text.contains("did not run to its end"), "{text}");
    }
}
