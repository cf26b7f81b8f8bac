//! The project's own commands, run as `cargo xtask <command>`.
//!
//! Logic that other projects keep in shell and YAML is kept here, where it is typed, tested and the
//! same on every machine. A CI service only calls `.ci/run`, which calls `cargo xtask ci`.
//!
//! One noun a file: `test`, `ci`, `tidy`, `bench`, `faults` and `fuzz` are commands; `tools`, `components` and
//! `peers` install what they need and `sh` runs it. No dependencies, so that a fresh checkout starts
//! at once.

mod bench;
mod ci;
mod components;
mod faults;
mod fuzz;
mod peers;
mod sh;
mod test;
mod tidy;
mod tools;

use std::error::Error;
use std::process::ExitCode;

/// Errors here are sentences for a person; nothing matches on them.
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask <command>

  test                  every test: unit, integration, doctests, examples
  ci                    what CI runs: format, clippy, tidy, docs, licences, then test
  tidy                  the style rules that a machine can check
  bench [name] [args]   build the benchmarks with the dist profile and run them
  bench instructions    instruction counts, under valgrind
  bench doors [name]    the server beside its peers: resp, http, grpc, load, idle
  bench gateway [name]  the gateway beside nginx, HAProxy, Envoy and Traefik: work, latency, memory
  bench shaping         how evenly requests leave a queue
  bench neighbour       what polite clients see of a noisy one
  bench redis           shared counters in Redis beside bare scripts and other limiters
  components            install what tests run against: Redis, Envoy, nginx, clients of other languages
  faults [name]         what the Redis store does when real servers misbehave, in figures
  fuzz [target]         arbitrary inputs for the parsers; `--seconds N` for each of them
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
