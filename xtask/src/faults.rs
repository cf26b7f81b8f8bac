//! `cargo xtask faults`: makes real servers fail, and prints what callers of the Redis store see.

use crate::{Result, components, sh};

pub(crate) fn run(scenarios: &[&str]) -> Result {
    components::ensure()?;
    let run = ["run", "--release", "--quiet", "--package", "tollgate-faults", "--"];
    let mut command = sh::command("cargo", &run);
    command.args(scenarios).env(components::FOLDER, components::folder());
    sh::run(&mut command)
}
