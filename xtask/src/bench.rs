//! `cargo xtask bench`: runs the benchmarks, built like a release.
//!
//! `tollgate-bench` gets all arguments unchanged. It counts instructions by running itself under
//! valgrind, and starts the servers that it measures; this module installs them.

use crate::tools::{self, Installer};
use crate::{Result, components, peers, sh};

const PROFILE: [&str; 2] = ["--profile", "dist"];
const BENCH: [&str; 2] = ["--package", "tollgate-bench"];
/// The server, which the benchmark expects in its own folder.
const SERVER: [&str; 2] = ["--package", "tollgate-cli"];

pub(crate) fn run(args: &[&str]) -> Result {
    let doors = args.first() == Some(&"doors");
    if args.first() == Some(&"instructions") {
        tools::ensure("valgrind", Installer::Apt("valgrind"))?;
    }
    if doors {
        peers::ensure_for_doors()?;
    }
    let gateway = args.first() == Some(&"gateway");
    if gateway {
        peers::ensure_for_gateway()?;
    }
    if args.first() == Some(&"redis") {
        peers::ensure_for_redis()?;
    }
    // The build is a separate step, so that the terminal shows only the benchmark afterwards. Bench
    // and server are built separately, because together they would share features.
    sh::run(sh::cargo(&["build"]).args(PROFILE).args(BENCH))?;
    if doors || gateway || matches!(args.first(), Some(&("shaping" | "neighbour"))) {
        sh::run(sh::cargo(&["build"]).args(PROFILE).args(SERVER))?;
    }
    let mut bench = sh::cargo(&["run", "--quiet"]);
    bench.args(PROFILE).args(BENCH).arg("--").args(args);
    let folders = [(peers::FOLDER, peers::folder()), (components::FOLDER, components::folder())];
    sh::run(bench.envs(folders))
}
