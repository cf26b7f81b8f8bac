//! Adaptive limits in a simulation: ours beside the published controllers, on the same traces.

#[path = "../../tollgate-core/tests/simulation/mod.rs"]
mod simulation;

use simulation::{Scenario, Score, Steering, held_out, hours, score, stories, surprises};

use crate::options::Options;
use crate::report::Table;

/// Chances that our controller was not tuned on: that was done with the first twenty.
const FIRST_SEED: u64 = 1001;

/// Prints a table for each story, and one for hours of overload.
pub(crate) fn run(options: &Options) {
    println!(
        "method:  virtual time; median of {} runs with other chances; goodput (answers within 4 × the \
         unloaded latency) in percent of a clairvoyant limit's on the same arrivals: over the whole \
         story, within the 5 s after the worst change, and from then on",
        options.rounds
    );
    println!("\n# tuned on, with other chances");
    stories().iter().for_each(|story| told(story, options));
    println!("\n# not tuned on, but mended after");
    surprises().iter().for_each(|story| told(story, options));
    println!("\n# not tuned on");
    held_out().iter().for_each(|story| told(story, options));
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

/// Prints how all did in a story.
fn told(story: &Scenario, options: &Options) {
    println!("\n{}", story.name);
    let heads =
        ["controller", "whole", "within the 5 s", "then", "p99", "highest limit", "dropped"];
    let mut table = Table::new(heads);
    let all = Steering::all();
    let scores = score(story, &all, FIRST_SEED..FIRST_SEED + options.rounds as u64);
    for (steering, score) in all.iter().zip(&scores) {
        table.row(row(steering.name(), score));
    }
    let [none, p99] = [String::new(), ms(scores[0].ideal_p99_ms)];
    table.row(["clairvoyant".into(), none.clone(), none.clone(), none, p99]);
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
