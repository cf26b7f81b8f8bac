//! `cargo xtask test`: runs all tests, and prints one closing line with their counts.
//!
//! Unit and integration tests run under nextest, one process each, so that a hang or an abort affects
//! one test only. Doctests follow, which nextest does not run, then the tests of concurrent code under
//! a model checker, then the examples of the libraries: each must exit with 0.
//! `tollgate-bench` is excluded, because it builds every peer that it measures.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::sh::{self, Stream};
use crate::tools::{self, Installer};
use crate::{Result, components};

const SCOPE: [&str; 3] = ["--workspace", "--exclude", "tollgate-bench"];
/// The packages whose examples are run.
const LIBRARIES: [&str; 3] = ["tollgate", "tollgate-rules", "tollgate-tower"];
/// The packages with tests under a model checker.
const MODEL_CHECKED: [&str; 4] = ["--package", "tollgate", "--package", "tollgate-rules"];
/// The maximum run time of an example; a longer one waits for input or hangs.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// The number of passed and failed tests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct TestCount {
    passed: u64,
    failed: u64,
}

impl TestCount {
    fn total(self) -> u64 {
        self.passed + self.failed
    }
}

pub(crate) fn run() -> Result {
    components::ensure()?;
    // A failing test does not stop the later kinds of tests, but a failing build does (`counted`).
    let (counts, took) = sh::timed(|| -> Result<[TestCount; 4]> {
        Ok([unit_and_integration()?, doctests()?, interleavings()?, examples()?])
    });
    let (ok, line) = closing_line(counts?, took);
    if ok {
        println!("{line}");
        Ok(())
    } else {
        Err(line.into())
    }
}

fn unit_and_integration() -> Result<TestCount> {
    match tools::ensure("cargo-nextest", Installer::Cargo("cargo-nextest")) {
        Ok(()) => {
            let nextest = &mut sh::cargo(&["nextest", "run", "--no-fail-fast"]);
            nextest.args(SCOPE).env(components::FOLDER, components::folder());
            let (ok, text) = sh::tee(nextest, Stream::Stderr)?;
            counted("cargo nextest run", ok, nextest_count(&text))
        }
        Err(error) => {
            eprintln!("{error}\nfalling back on cargo test");
            let plain = &mut sh::cargo(&["test", "--tests", "--no-fail-fast"]);
            plain.args(SCOPE).env(components::FOLDER, components::folder());
            let (ok, text) = sh::tee(plain, Stream::Stdout)?;
            counted("cargo test --tests", ok, libtest_count(&text))
        }
    }
}

fn doctests() -> Result<TestCount> {
    let doc = &mut sh::cargo(&["test", "--doc", "--no-fail-fast"]);
    let (ok, text) = sh::tee(doc.args(SCOPE), Stream::Stdout)?;
    counted("cargo test --doc", ok, libtest_count(&text))
}

/// Runs the tests under a model checker: `--cfg shuttle` replaces the atomics and locks of the
/// libraries, so they need a separate build.
fn interleavings() -> Result<TestCount> {
    let shuttle = &mut sh::cargo(&["test", "--no-fail-fast"]);
    shuttle.args(MODEL_CHECKED).args(["--test", "shuttle"]);
    shuttle.args(["--target-dir", "target/shuttle"]).env("RUSTFLAGS", "--cfg shuttle");
    let (ok, text) = sh::tee(shuttle, Stream::Stdout)?;
    counted("cargo test --test shuttle", ok, libtest_count(&text))
}

fn examples() -> Result<TestCount> {
    let mut count = TestCount::default();
    for library in LIBRARIES {
        let names = example_names(&sh::root().join("crates").join(library).join("examples"))?;
        if names.is_empty() {
            continue;
        }
        // The examples are built first and started without Cargo, so that the time limit is only for
        // running: another Cargo may hold the lock of the target folder.
        sh::run(&mut sh::cargo(&["build", "--quiet", "--package", library, "--examples"]))?;
        for name in names {
            let program = sh::target_folder().join("debug/examples").join(&name);
            match sh::run_within(&mut Command::new(program), EXAMPLE_LIMIT) {
                Ok(()) => count.passed += 1,
                Err(error) => {
                    eprintln!("example failed: {error}");
                    count.failed += 1;
                }
            }
        }
    }
    Ok(count)
}

/// Returns the examples of a folder as Cargo finds them: `x.rs` and `x/main.rs`.
fn example_names(folder: &Path) -> Result<Vec<String>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_example =
            path.extension().is_some_and(|ext| ext == "rs") || path.join("main.rs").is_file();
        if let (true, Some(stem)) = (is_example, path.file_stem()) {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the count of a command, or an error if it failed without a failing test: then the build
/// failed or a test aborted.
fn counted(command: &str, ok: bool, count: TestCount) -> Result<TestCount> {
    match ok || count.failed > 0 {
        true => Ok(count),
        false => {
            Err(format!("test result: FAILED. `{command}` did not complete: see above").into())
        }
    }
}

/// Reads `Summary [ 0.1s] 5 tests run: 4 passed, 1 failed, 0 skipped`, coloured or not.
fn nextest_count(text: &str) -> TestCount {
    let text = without_colour(text);
    let summary = text.lines().rev().find_map(|line| {
        let (_, rest) = line.trim_start().strip_prefix("Summary")?.split_once(']')?;
        let (run, outcome) = rest.split_once(" run:")?;
        // A cancelled run prints `3/5 tests`; the tests that did not run count as failed.
        let total = run.split_whitespace().next()?.rsplit('/').next()?.parse::<u64>().ok()?;
        let passed = number_before(outcome, "passed").unwrap_or(0);
        Some(TestCount { passed, failed: total.saturating_sub(passed) })
    });
    summary.unwrap_or_default()
}

/// Adds up the lines `test result: ok. 3 passed; 0 failed; …`, one for each test binary.
fn libtest_count(text: &str) -> TestCount {
    let mut count = TestCount::default();
    for line in without_colour(text).lines().filter(|line| line.starts_with("test result:")) {
        count.passed += number_before(line, "passed").unwrap_or(0);
        count.failed += number_before(line, "failed").unwrap_or(0);
    }
    count
}

fn number_before(line: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> =
        line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok())
}

/// Removes the escape sequences `ESC [ … m`.
fn without_colour(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    plain.extend(parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest)));
    plain
}

fn closing_line(counts: [TestCount; 4], took: Duration) -> (bool, String) {
    let [tests, doctests, interleavings, examples] = counts;
    let failed = counts.iter().map(|count| count.failed).sum::<u64>();
    let line = format!(
        "test result: {}. {} passed; {failed} failed; {} unit and integration tests, \
         {} doctests, {} interleaving tests, {} examples in {:.1} s",
        if failed == 0 { "ok" } else { "FAILED" },
        counts.iter().map(|count| count.passed).sum::<u64>(),
        tests.total(),
        doctests.total(),
        interleavings.total(),
        examples.total(),
        took.as_secs_f64(),
    );
    (failed == 0, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(passed: u64, failed: u64) -> TestCount {
        TestCount { passed, failed }
    }

    #[test]
    fn nextest_summaries_are_read() {
        let line = "     Summary [   0.005s] 12 tests run: 12 passed (1 slow), 0 skipped\n";
        assert_eq!(nextest_count(line), count(12, 0));
        let line = "Summary [1.0s] 5 tests run: 2 passed, 1 failed, 2 timed out, 0 skipped\nerror";
        assert_eq!(nextest_count(line), count(2, 3));
        assert_eq!(nextest_count("Summary [1s] 3/5 tests run: 3 passed"), count(3, 2));
        assert_eq!(nextest_count("Summary [1s] 1 test run: 1 passed, 0 skipped"), count(1, 0));
        let line = "\u{1b}[32;1m Summary\u{1b}[0m [ 0.1s] \u{1b}[1m7\u{1b}[0m tests run: \
                    \u{1b}[1m7\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m";
        assert_eq!(nextest_count(line), count(7, 0));
        assert_eq!(nextest_count("error: could not compile"), count(0, 0));
    }

    #[test]
    fn libtest_results_add_up() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored\nnoise\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        assert_eq!(libtest_count(text), count(4, 2));
    }

    #[test]
    fn a_broken_build_is_not_zero_tests() {
        assert!(counted("cargo x", false, count(0, 0)).is_err());
        assert_eq!(counted("cargo x", false, count(1, 1)).unwrap(), count(1, 1));
        assert_eq!(counted("cargo x", true, count(0, 0)).unwrap(), count(0, 0));
    }

    #[test]
    fn the_closing_line_counts() {
        let (ok, line) = closing_line(
            [count(10, 0), count(2, 0), count(3, 0), count(1, 0)],
            Duration::from_secs(3),
        );
        assert!(ok);
        assert!(line.starts_with("test result: ok. 16 passed; 0 failed; 10 unit"), "{line}");
        let (ok, line) = closing_line(
            [count(9, 1), count(2, 0), count(3, 0), count(1, 0)],
            Duration::from_secs(3),
        );
        assert!(!ok);
        assert!(line.starts_with("test result: FAILED. 15 passed; 1 failed; 10 unit"), "{line}");
    }

    #[test]
    fn a_missing_folder_has_no_examples() {
        assert!(example_names(Path::new("no/such/folder")).unwrap().is_empty());
    }
}
