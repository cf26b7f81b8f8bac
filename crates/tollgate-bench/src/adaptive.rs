//! Adaptive limits in a simulation: ours beside the published controllers, on the same traces.

#[path = "../../tollgate-core/tests/simulation/mod.rs"]
mod simulation;

use simulation::{Score, Steering, hours, score, stories};

use crate::options::Options;
use crate::report::Table;

/// Chances that our controller was not tuned on: that was done with the first twenty.
const FIRST_SEED: u64 = 1001;

/// Prints a table for each story.
pub(crate) fn run(options: &Options) {
    println!(
        "method:  virtual time; median of {} runs with other chances; goodput (answers within 4 × the \
         unloaded latency) in percent of a clairvoyant limit's on the same arrivals: over the whole \
         story, in the 5 s after the worst change, and from then on",
        options.rounds
    );
    for story in stories() {
        println!("\n{}", story.name);
        let heads = ["controller", "whole", "5 s after", "then", "p99", "highest limit", "dropped"];
        let mut table = Table::new(heads);
        let all = Steering::all();
        let scores = score(&story, &all, FIRST_SEED..FIRST_SEED + options.rounds as u64);
        for (steering, score) in all.iter().zip(&scores) {
            table.row(row(steering.name(), score));
        }
        table.row([
            "clairvoyant".into(),
            String::new(),
            String::new(),
            String::new(),
            ms(scores[0].ideal_p99_ms),
        ]);
        table.print();
    }
    println!("\nthree hours of overload on a service that two requests keep busy");
    let mut table = Table::new(["controller", "mean limit of each half hour", "highest limit"]);
    for steering in Steering::all() {
        let name = steering.name().to_owned();
        let (means, highest) = hours(steering);
        let means: Vec<String> = means.iter().map(|mean| format!("{mean:.1}")).collect();
        table.row([name, means.join(" "), highest.to_string()]);
    }
    table.print();
}

fn row(name: &str, score: &Score) -> [String; 7] {
    let pct = |share: f64| format!("{share:.0} %");
    let Score { whole_pct, finding_pct, found_pct, p99_ms, highest, dropped, .. } = *score;
    let shares = [pct(whole_pct), pct(finding_pct), pct(found_pct)];
    let [whole, finding, found] = shares;
    [name.to_owned(), whole, finding, found, ms(p99_ms), highest.to_string(), dropped.to_string()]
}

fn ms(millis: f64) -> String {
    format!("{millis:.0} ms")
}
