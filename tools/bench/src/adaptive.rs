//! Adaptive limits in a simulation: our controller and the published ones, on the same arrivals.

#[path = "../../../crates/tollgate-core/tests/simulation/mod.rs"]
mod simulation;

use simulation::{
    LimitPolicy, Scenario, Score, held_out_scenarios, regression_scenarios, score,
    three_hours_of_overload, tuned_scenarios,
};

use crate::options::Options;
use crate::report::Table;

/// The first seed. Our controller was tuned with the seeds 1 to 20, so these are new to it.
const FIRST_SEED: u64 = 1001;

/// Prints a table for each scenario, and one for three hours of overload.
pub(crate) fn run(options: &Options) {
    println!(
        "method:  virtual time; median of {} seeds; goodput (responses within 4 × the \
         unloaded latency) in percent of an oracle's on the same arrivals: over the whole \
         scenario, within the 5 s after the worst change, and after those",
        options.rounds
    );
    println!("\n# tuned on, with new seeds");
    tuned_scenarios().iter().for_each(|scenario| print_scores(scenario, options));
    println!("\n# not tuned on, but improved after");
    regression_scenarios().iter().for_each(|scenario| print_scores(scenario, options));
    println!("\n# not tuned on");
    held_out_scenarios().iter().for_each(|scenario| print_scores(scenario, options));
    println!("\nthree hours of overload on a service that two requests keep busy");
    let mut table = Table::new(["controller", "mean limit of each half hour", "highest limit"]);
    for policy in LimitPolicy::all() {
        let name = policy.name().to_owned();
        let (means, highest) = three_hours_of_overload(policy);
        let means: Vec<String> = means.iter().map(|mean| format!("{mean:.1}")).collect();
        table.row([name, means.join(" "), highest.to_string()]);
    }
    table.print();
}

/// Prints the scores of all controllers in a scenario.
fn print_scores(scenario: &Scenario, options: &Options) {
    println!("\n{}", scenario.name);
    let heads =
        ["controller", "whole", "within the 5 s", "after", "p99", "highest limit", "dropped"];
    let mut table = Table::new(heads);
    let all = LimitPolicy::all();
    let scores = score(scenario, &all, FIRST_SEED..FIRST_SEED + options.rounds as u64);
    for (policy, score) in all.iter().zip(&scores) {
        table.row(row(policy.name(), score));
    }
    let [none, p99] = [String::new(), ms(scores[0].ideal_p99_ms)];
    table.row(["oracle".into(), none.clone(), none.clone(), none, p99]);
    table.print();
}

fn row(name: &str, score: &Score) -> [String; 7] {
    let pct = |share: f64| format!("{share:.0} %");
    let Score { whole_pct, settling_pct, settled_pct, p99_ms, highest, dropped, .. } = *score;
    let shares = [pct(whole_pct), pct(settling_pct), pct(settled_pct)];
    let [whole, settling, settled] = shares;
    [
        name.to_owned(),
        whole,
        settling,
        settled,
        ms(p99_ms),
        highest.to_string(),
        dropped.to_string(),
    ]
}

fn ms(millis: f64) -> String {
    format!("{millis:.0} ms")
}
