//! `cargo xtask ci`: everything that must hold before a change goes in, cheapest first.
//!
//! Stops at the first failure and says what to run. A step is a function, so what CI does and what
//! a person does by hand cannot drift apart.

use std::time::Duration;

use crate::{Result, sh, test, tidy, tools};

struct Step {
    name: &'static str,
    /// How to see this failure again, or mend it.
    by_hand: &'static str,
    run: fn() -> Result,
}

const STEPS: &[Step] = &[
    Step { name: "format", by_hand: "cargo fmt --all", run: format },
    Step {
        name: "clippy",
        by_hand: "cargo clippy --workspace --all-targets --exclude tollgate-bench -- -D warnings",
        run: clippy,
    },
    Step { name: "tidy", by_hand: "cargo xtask tidy", run: tidy::run },
    Step {
        name: "docs",
        by_hand: "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --exclude tollgate-bench",
        run: docs,
    },
    Step { name: "licences", by_hand: "cargo deny check", run: licences },
    Step { name: "test", by_hand: "cargo xtask test", run: test::run },
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
                step.by_hand
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
    // The library without its rules, as some will use it.
    sh::run(
        sh::cargo(&["clippy", "--package", "tollgate", "--no-default-features", "--lib"])
            .args(["--", "-D", "warnings"]),
    )
}

fn docs() -> Result {
    sh::run(
        sh::cargo(&["doc", "--workspace", "--no-deps", "--exclude", "tollgate-bench"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Not installed on demand: it compiles for many minutes.
fn licences() -> Result {
    if tools::find("cargo-deny").is_none() {
        eprintln!("skipped: cargo-deny is not installed (cargo install cargo-deny --locked)");
        return Ok(());
    }
    sh::run(&mut sh::cargo(&["deny", "check"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_adds_up() {
        let times = [("tidy", Duration::from_millis(200)), ("test", Duration::from_secs(3))];
        assert_eq!(closing_line(&times), "ci: ok. 2 steps in 3.2 s (tidy 0.2, test 3.0)");
    }
}
