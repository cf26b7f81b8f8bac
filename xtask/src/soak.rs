//! `cargo xtask soak`: runs the server and the gateway under load, and fails on what grows.
//!
//! `tollgate-soak` gets all arguments; it starts the server that is built here.

use crate::{Result, sh};

pub(crate) fn run(args: &[&str]) -> Result {
    sh::run(&mut sh::cargo(&["build", "--release", "--package", "tollgate-cli"]))?;
    let run = ["run", "--release", "--quiet", "--package", "tollgate-soak", "--"];
    let server = sh::target_folder().join("release/tollgate");
    sh::run(sh::cargo(&run).arg("--server").arg(server).args(args))
}
