//! `cargo xtask bench`: the benchmarks, built as a release would be.
//!
//! What there is to measure is the business of `tollgate-bench`, which gets all arguments as they
//! are. It counts instructions by running itself again under valgrind; here valgrind is only made
//! sure of.

use crate::tools::{self, Installer};
use crate::{Result, sh};

const PACKAGE: [&str; 4] = ["--profile", "dist", "--package", "tollgate-bench"];

pub(crate) fn run(args: &[&str]) -> Result {
    if args.first() == Some(&"instructions") {
        tools::ensure("valgrind", Installer::Apt("valgrind"))?;
    }
    // Built apart, so that what follows on the terminal is the benchmark and nothing else.
    sh::run(sh::cargo(&["build"]).args(PACKAGE))?;
    sh::run(sh::cargo(&["run", "--quiet"]).args(PACKAGE).arg("--").args(args))
}
