//! `cargo xtask bench`: the benchmarks, built as a release would be.
//!
//! What there is to measure is the business of `tollgate-bench`, which gets all arguments as they
//! are. It counts instructions by running itself again under valgrind, and measures servers that it
//! starts itself; here they are only made sure of.

use crate::tools::{self, Installer};
use crate::{Result, components, peers, sh};

const PROFILE: [&str; 2] = ["--profile", "dist"];
const BENCH: [&str; 2] = ["--package", "tollgate-bench"];
/// The server, which the benchmark looks for beside itself.
const SERVER: [&str; 2] = ["--package", "tollgate-cli"];

pub(crate) fn run(args: &[&str]) -> Result {
    let doors = args.first() == Some(&"doors");
    if args.first() == Some(&"instructions") {
        tools::ensure("valgrind", Installer::Apt("valgrind"))?;
    }
    if doors {
        peers::of_doors()?;
    }
    let gateway = args.first() == Some(&"gateway");
    if gateway {
        peers::of_gateway()?;
    }
    if args.first() == Some(&"redis") {
        peers::of_redis()?;
    }
    // Built apart, so that what follows on the terminal is the benchmark and nothing else; and one
    // apart from the other, because together they would share features that neither has alone.
    sh::run(sh::cargo(&["build"]).args(PROFILE).args(BENCH))?;
    if doors || gateway || matches!(args.first(), Some(&("shaping" | "neighbour"))) {
        sh::run(sh::cargo(&["build"]).args(PROFILE).args(SERVER))?;
    }
    let mut bench = sh::cargo(&["run", "--quiet"]);
    bench.args(PROFILE).args(BENCH).arg("--").args(args);
    let folders = [(peers::FOLDER, peers::folder()), (components::FOLDER, components::folder())];
    sh::run(bench.envs(folders))
}
