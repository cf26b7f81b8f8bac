//! What the Redis store does when real servers misbehave, in figures.
//!
//! ```text
//! cargo xtask faults            # all of them, about two minutes
//! cargo xtask faults stop oom   # some
//! ```
//!
//! Every scenario keeps a steady load on a store, hurts its server, heals it, and reports what the
//! callers saw: how long calls took before, when trouble began, and while the store was left alone;
//! when that began and when it was over; and whether every call was charged exactly once.

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
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let mut kept = true;
    report::head();
    for scenario in SCENARIOS.iter().filter(|scenario| is_wanted(scenario.name)) {
        kept &= report::print(scenario, &scenarios::run(scenario));
    }
    if is_wanted("expiry") {
        kept &= expiry::run();
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
