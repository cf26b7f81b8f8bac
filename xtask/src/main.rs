//! The commands of this project, run as `cargo xtask <command>`.
//!
//! They replace shell scripts and CI configuration: typed, tested, and the same on every machine. A CI service only calls `.ci/run`, which calls `cargo xtask ci`.
//!
//! `test`, `ci`, `tidy`, `bench`, `faults`, `fuzz` and `soak` are commands; `tools`, `components` and `peers`
//! install the programs they need, and `sh` runs them. There are no dependencies, so that a fresh
//! checkout starts at once.

mod bench;
mod ci;
mod components;
mod faults;
mod fuzz;
mod peers;
mod sh;
mod soak;
mod test;
mod tidy;
mod tools;

use std::error::Error;
use std::process::ExitCode;

/// The result of a command. Errors are texts for people; no code matches on them.
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask <command>

  test                  all tests: unit, integration, doctests, model checker, examples
  ci                    all checks of CI: format, clippy, tidy, docs, licences, test
  tidy                  the style rules of this project
  bench [name] [args]   the benchmarks, built with the dist profile
  bench instructions    instruction counts, under valgrind
  bench doors [name]    the server compared with others: resp, http, grpc, load, idle
  bench gateway [name]  the gateway compared with nginx, HAProxy, Envoy and Traefik
  bench shaping         how evenly requests leave a queue
  bench neighbour       how one busy client affects the others
  bench redis           shared counters in Redis compared with other limiters
  components            install the programs that tests use: Redis, Envoy, nginx, clients
  faults [name]         the Redis store with real servers that fail
  fuzz [target]         arbitrary inputs for the parsers; `--seconds N` per parser
  soak [--minutes N]    the server and gateway under load: fails on growing memory or latency
  help                  this text
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["test"] => test::run(),
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["bench", rest @ ..] => bench::run(rest),
        ["components"] => components::ensure(),
        ["faults", rest @ ..] => faults::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
