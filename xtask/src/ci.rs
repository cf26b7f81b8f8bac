//! `cargo xtask ci`: all checks that a change must pass, the fastest first.
//!
//! The command stops at the first failure and prints the command to run. Each step is a function of this crate,
//! so CI and developers run the same code.

use std::time::Duration;

use crate::tools::{self, Installer};
use crate::{Result, sh, test, tidy};

/// One check of CI.
struct CiStep {
    name: &'static str,
    /// The command that reproduces or fixes a failure.
    command: &'static str,
    run: fn() -> Result,
}

const DENY_CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

const STEPS: &[CiStep] = &[
    CiStep { name: "format", command: "cargo fmt --all", run: format },
    CiStep {
        name: "clippy",
        command: "cargo clippy --workspace --all-targets --exclude tollgate-bench -- -D warnings",
        run: clippy,
    },
    CiStep { name: "tidy", command: "cargo xtask tidy", run: tidy::run },
    CiStep {
        name: "docs",
        command: "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --exclude tollgate-bench",
        run: docs,
    },
    CiStep { name: "licences", command: "cargo deny check bans licenses sources", run: licences },
    CiStep { name: "test", command: "cargo xtask test", run: test::run },
];

pub(crate) fn run() -> Result {
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for step in STEPS {
        eprintln!("\n== {} ==", step.name);
        let (outcome, took) = sh::timed(step.run);
        if let Err(error) = outcome {
            return Err(format!(
                "{error}\n\nci: {} failed after {:.1} s. Run: {}",
                step.name,
                took.as_secs_f64(),
                step.command
            )
            .into());
        }
        eprintln!("== {}: {:.1} s ==", step.name, took.as_secs_f64());
        times.push((step.name, took));
    }
    println!("\n{}", closing_line(&times));
    Ok(())
}

fn closing_line(times: &[(&str, Duration)]) -> String {
    let total: Duration = times.iter().map(|(_, took)| *took).sum();
    let each: Vec<String> =
        times.iter().map(|(name, took)| format!("{name} {:.1}", took.as_secs_f64())).collect();
    format!("ci: ok. {} steps in {:.1} s ({})", times.len(), total.as_secs_f64(), each.join(", "))
}

fn format() -> Result {
    sh::run(&mut sh::cargo(&["fmt", "--all", "--check"]))
}

fn clippy() -> Result {
    sh::run(
        sh::cargo(&["clippy", "--workspace", "--all-targets", "--exclude", "tollgate-bench"])
            .args(["--", "-D", "warnings"]),
    )?;
    // The libraries as a service uses them: without the features that the server turns on.
    sh::run(
        sh::cargo(&[
            "clippy",
            "--package",
            "tollgate-rules",
            "--package",
            "tollgate-tower",
            "--lib",
        ])
        .args(["--", "-D", "warnings"]),
    )
}

fn docs() -> Result {
    sh::run(
        sh::cargo(&["doc", "--workspace", "--no-deps", "--exclude", "tollgate-bench"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Checks licences, banned crates and sources of all dependencies.
///
/// Advisories are left to the workflow, since their database is in no package registry.
fn licences() -> Result {
    tools::ensure("cargo-deny", Installer::CargoDebug("cargo-deny"))?;
    sh::run(sh::cargo(&["deny", "--log-level", "error", "check"]).args(DENY_CHECKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A missing cargo-deny is installed, and a failure to install it is an error: the step has no way
    /// to be skipped. Advisories need the network, so the workflow runs them.
    #[test]
    fn every_check_of_dependencies_is_a_step_that_can_fail() {
        assert!(STEPS.iter().any(|step| step.command.starts_with("cargo deny check")));
        let workflow =
            std::fs::read_to_string(sh::root().join(".github/workflows/ci.yml")).unwrap();
        let entry = std::fs::read_to_string(sh::root().join(".ci/run")).unwrap();
        assert!(workflow.contains("- run: .ci/run\n"), "{workflow}");
        assert!(workflow.contains("- run: cargo deny check advisories\n"), "{workflow}");
        assert!(entry.contains("set -e") && entry.contains("exec cargo xtask ci"), "{entry}");
        for skip in ["continue-on-error", "|| true", "if:"] {
            assert!(!workflow.contains(skip) && !entry.contains(skip), "{skip}");
        }
        let checks = ["advisories", "bans", "licenses", "sources"];
        let known = |check: &&str| DENY_CHECKS.contains(check) || workflow.contains(*check);
        assert!(checks.iter().all(known));
    }

    #[test]
    fn a_tool_that_cannot_be_installed_is_an_error() {
        let nowhere = Installer::Cargo("tollgate-no-such-crate --offline");
        let error = tools::ensure("tollgate-no-such-tool", nowhere).unwrap_err().to_string();
        assert!(error.contains("could not be installed"), "{error}");
    }

    #[test]
    fn the_closing_line_adds_up() {
        let times = [("tidy", Duration::from_millis(200)), ("test", Duration::from_secs(3))];
        assert_eq!(closing_line(&times), "ci: ok. 2 steps in 3.2 s (tidy 0.2, test 3.0)");
    }
}
