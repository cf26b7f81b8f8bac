//! `cargo xtask fuzz`: runs the parsers on arbitrary inputs for a bounded time.
//!
//! The targets are in `fuzz/`, a crate outside the workspace; each calls a function in the crate of its
//! parser (`fuzz_targets`), which exists only under `cfg(fuzzing)` and in tests. A run starts from the
//! stored corpus (`fuzz/corpus/`), and from what earlier runs on this machine found (`fuzz/found/`).
//! An input that crashes a target is stored in `fuzz/artifacts/`: fix the fault, and add the input to
//! the corpus, which `cargo xtask test` replays.
//!
//! There is no sanitizer: the code has no `unsafe`, and a stable compiler is enough without one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::sh::{self, Stream};
use crate::tools::{self, Installer};

const CRATE: &str = "fuzz";
const TARGETS: [&str; 21] = [
    "rules",
    "limit",
    "key",
    "envoy",
    "expression",
    "snapshot",
    "redis_reply",
    "redis_counter",
    "request_guard",
    "chunks",
    "frames",
    "json_body",
    "protobuf",
    "resp",
    "bundle",
    "attachment",
    "import_envoy",
    "import_kong",
    "import_limitador",
    "import_nginx",
    "access_log",
];
const SECONDS: u64 = 20;
/// The time after which one input counts as a hang; most take less than a millisecond.
const SECONDS_PER_INPUT: u64 = 20;
const MEGABYTES: u64 = 1_024;
/// The maximum length of an input; longer ones find no other errors.
const MAX_BYTES: u64 = 8 << 10;

pub(crate) fn run(args: &[&str]) -> Result {
    let (seconds, targets) = options(args)?;
    tools::ensure("cargo-fuzz", Installer::Cargo("cargo-fuzz"))?;
    let root = sh::root();
    // The targets use the dependency versions that are shipped.
    fs::copy(root.join("Cargo.lock"), root.join(CRATE).join("Cargo.lock"))?;
    for target in &targets {
        sh::run(&mut sh::cargo(&["fuzz", "build", "--sanitizer", "none", target]))?;
    }
    let results: Result<Vec<FuzzResult>> =
        targets.iter().map(|target| fuzz(&root, target, seconds)).collect();
    let rows = results?;
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
                return Err(format!("no fuzz target {name:?}: choose one of {known}").into());
            }
        }
    }
    if targets.is_empty() {
        targets.extend(TARGETS);
    }
    Ok((seconds, targets))
}

/// The result of one target.
#[derive(Debug, Default)]
struct FuzzResult {
    target: String,
    runs: u64,
    per_second: u64,
    /// The number of inputs that runs on this machine found.
    found: usize,
    /// The inputs that crashed it.
    crashes: Vec<String>,
    ended_well: bool,
}

fn fuzz(root: &Path, target: &str, seconds: u64) -> Result<FuzzResult> {
    let found = root.join(CRATE).join("found").join(target);
    fs::create_dir_all(&found)?;
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-timeout={SECONDS_PER_INPUT}"),
        format!("-rss_limit_mb={MEGABYTES}"),
        format!("-max_len={MAX_BYTES}"),
        format!("-dict={CRATE}/words.dict"),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
        "-print_funcs=0".to_owned(),
    ];
    let run = &mut sh::cargo(&["fuzz", "run", "--sanitizer", "none", target]);
    // New inputs go to the first folder.
    run.arg(&found).args(stored_inputs(root, target)).arg("--");
    let (ended_well, output) = sh::tee(run.args(limits), Stream::Stderr)?;
    Ok(FuzzResult {
        target: target.to_owned(),
        runs: statistic(&output, "number_of_executed_units"),
        per_second: statistic(&output, "average_exec_per_sec"),
        found: files_below(&found)?.len(),
        crashes: output.lines().filter_map(|line| crash(root, line)).collect(),
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
fn statistic(output: &str, name: &str) -> u64 {
    let number = |line: &str| -> Option<u64> {
        line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok()
    };
    output.lines().rev().find_map(number).unwrap_or(0)
}

/// Returns the folders with the inputs of a target that are stored in the repository.
fn stored_inputs(root: &Path, target: &str) -> Vec<PathBuf> {
    let mut folders = vec![root.join(CRATE).join("corpus").join(target)];
    if target == "rules" {
        folders.push(root.join("examples/rules"));
        folders.push(root.join("crates/tollgate-rules/tests/diagnostics"));
    }
    folders
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

fn table(rows: &[FuzzResult]) -> String {
    let mut lines = vec![format!(
        "{:<18}{:>12}{:>10}{:>10}{:>10}",
        "target", "runs", "runs/s", "found", "crashes"
    )];
    lines.extend(rows.iter().map(|row| {
        let FuzzResult { target, runs, per_second, found, crashes, .. } = row;
        format!("{target:<18}{runs:>12}{per_second:>10}{found:>10}{:>10}", crashes.len())
    }));
    lines.join("\n")
}

fn how_to_reproduce(rows: &[FuzzResult]) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let target = &row.target;
        for input in &row.crashes {
            lines.push(format!("{target} crashes on {input}; to reproduce:"));
            lines.push(format!("  cargo fuzz run -s none {target} {input}"));
            lines.push(format!(
                "  cargo fuzz tmin -s none {target} {input}   # to shorten the input"
            ));
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

    /// A target that is not replayed would be checked only by runs of the fuzzer.
    #[test]
    fn every_target_is_declared_and_its_corpus_is_replayed() {
        let folder = sh::root().join(CRATE);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        let crates = files_below(&sh::root().join("crates")).unwrap();
        let tests = crates.iter().filter(|file| {
            file.components()
                .any(|part| part.as_os_str().to_string_lossy().starts_with("fuzz_targets"))
        });
        let tests: String = tests.map(|file| fs::read_to_string(file).unwrap()).collect();
        for target in TARGETS {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(tests.contains(&format!("Corpus::of(\"{target}\")")), "{target}");
            assert!(!files_below(&folder.join("corpus").join(target)).unwrap().is_empty());
        }
    }

    #[test]
    fn the_stored_corpus_stays_small() {
        let files = files_below(&sh::root().join(CRATE).join("corpus")).unwrap();
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert!(bytes < 400 << 10, "the corpus has {bytes} bytes; remove what adds little");
    }

    #[test]
    fn figures_are_read_and_shown() {
        let output = "Done 12 runs\nstat::number_of_executed_units: 4711\nstat::peak_rss_mb: 5\n";
        assert_eq!(statistic(output, "number_of_executed_units"), 4_711);
        assert_eq!(statistic(output, "average_exec_per_sec"), 0);
        let row = FuzzResult {
            target: "key".into(),
            runs: 4_711,
            ended_well: true,
            ..FuzzResult::default()
        };
        let table = table(&[row]);
        let words: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(words, ["key", "4711", "0", "0", "0"]);
    }

    #[test]
    fn a_crash_can_be_reproduced() {
        let line = "artifact_prefix='x/'; Test unit written to /here/fuzz/artifacts/key/crash-1";
        let crashes = crash(Path::new("/here"), line).into_iter().collect();
        let row = FuzzResult { target: "key".into(), crashes, ..FuzzResult::default() };
        let text = how_to_reproduce(&[row]);
        assert!(text.contains("cargo fuzz run -s none key fuzz/artifacts/key/crash-1"), "{text}");
        let text =
            how_to_reproduce(&[FuzzResult { target: "key".into(), ..FuzzResult::default() }]);
        assert!(text.contains("did not run to its end"), "{text}");
    }
}
