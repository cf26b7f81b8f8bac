//! Measures the Redis store while real servers fail.
//!
//! ```text
//! cargo xtask faults            # all of them, about two minutes
//! cargo xtask faults stop oom   # some
//! ```
//!
//! Every scenario puts a steady load on a store, causes a fault and repairs it. It reports the
//! durations of calls before the fault, during it, and while the store was down; when that began and
//! ended; and whether every call was charged exactly once.

mod expiry;
mod load;
mod report;
mod scenarios;

use std::process::ExitCode;

use scenarios::SCENARIOS;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let names = || SCENARIOS.iter().map(|scenario| scenario.name).chain(["expiry"]);
    if let Some(unknown) = wanted.iter().find(|name| !names().any(|known| known == **name)) {
        eprintln!("there is no `{unknown}`; there are: {}", names().collect::<Vec<_>>().join(", "));
        return ExitCode::from(2);
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|other| other == name);
    let mut all_kept = true;
    report::head();
    for scenario in SCENARIOS.iter().filter(|scenario| is_wanted(scenario.name)) {
        all_kept &= report::print(scenario, &scenarios::run(scenario));
    }
    if is_wanted("expiry") {
        all_kept &= expiry::run();
    }
    if all_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
