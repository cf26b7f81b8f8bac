//! The performance targets of tollgate, and whether a run meets them.

use crate::figures::{Case, Figures, KeyDistribution, KeyKind, Ratio};
use crate::memory::{Fill, METER, WINDOW};
use crate::options::Options;
use crate::report::{Table, count};
use crate::workload::THREADS;

/// The most that the quartiles of a ratio may excuse.
const MOST_NOISE: f64 = 0.10;

/// A performance target.
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) measured: Option<f64>,
    pub(crate) most: f64,
}

/// Prints every target with its measured value, and whether it is met.
pub(crate) fn print(figures: &Figures, batch: Option<Ratio>, fills: &[Fill], options: &Options) {
    let mut targets = Vec::new();
    speed(&mut targets, figures, &count(options.keys));
    targets.push(Target {
        what: "batch of 16 / one by one".to_owned(),
        measured: batch.map(|ratio| ratio.value),
        most: 0.6,
    });
    memory(&mut targets, fills);

    println!("\nTargets (ratios: median over rounds of tollgate / governor in the same round)");
    table(&targets);
    if options.keys != 1_000_000 || options.most_keys != 10_000_000 {
        println!("  (the targets are meant for 1 M and 10 M keys: this run is smaller)");
    }
}

/// Prints targets with their measured values, and whether they are met.
pub(crate) fn table(targets: &[Target]) {
    let mut table = Table::new(["target", "measured", "at most", ""]);
    let mut missed = 0;
    for Target { what, measured, most } in targets {
        let verdict = match measured {
            None => "not measured",
            Some(measured) if measured <= most => "met",
            Some(_) => {
                missed += 1;
                "MISSED"
            }
        };
        let measured = measured.map_or("-".to_owned(), |value| format!("{value:.2}"));
        table.row([what.clone(), measured, format!("{most:.2}"), verdict.to_owned()]);
    }
    table.print();
    println!("  {missed} missed");
}

fn speed(targets: &mut Vec<Target>, figures: &Figures, keys: &str) {
    let text = |traffic, denied, threads| Case { keys: KeyKind::Text, traffic, denied, threads };
    let mut against = |what: String, case: Case, most| {
        let ratio = figures.ratio("tollgate", "governor", case);
        let what = format!("{what}, {} thread{}", case.threads, plural(case.threads));
        targets.push(Target { what, measured: ratio.map(|ratio| ratio.value), most });
    };
    for (traffic, most) in [(KeyDistribution::Uniform, 0.2), (KeyDistribution::Zipf, 0.3)] {
        for threads in 1..=THREADS {
            let what = format!("{keys} string keys, {traffic:?}");
            against(what, text(traffic, false, threads), most);
        }
    }
    for (what, keys, most) in [
        ("one hot string key", KeyKind::Text, 0.7),
        ("no keys, against governor direct", KeyKind::None, 1.1),
    ] {
        for (denied, outcome) in [(false, "allowed"), (true, "denied")] {
            for threads in 1..=THREADS {
                let case = Case { keys, traffic: KeyDistribution::Hot, denied, threads };
                against(format!("{what}, {outcome}"), case, most);
            }
        }
    }
    for traffic in [KeyDistribution::Uniform, KeyDistribution::Zipf] {
        for threads in 1..=THREADS {
            let [denied, allowed] = [true, false]
                .map(|denied| figures.find("tollgate", text(traffic, denied, threads)));
            let ratio = denied.zip(allowed).map(|(denied, allowed)| denied.over(allowed));
            let noise = ratio.map_or(0.0, |ratio| ratio.noise.min(MOST_NOISE));
            targets.push(Target {
                what: format!(
                    "90 % denied / all allowed, {traffic:?}, {threads} thread{}",
                    plural(threads)
                ),
                measured: ratio.map(|ratio| ratio.value),
                most: 1.0 + noise,
            });
        }
    }
}

fn memory(targets: &mut Vec<Target>, fills: &[Fill]) {
    for (subject, most) in [(METER, 48.0), (WINDOW, 80.0)] {
        for fill in fills.iter().filter(|fill| fill.subject == subject) {
            targets.push(Target {
                what: format!("bytes per key, {subject}, {} keys", count(fill.keys)),
                measured: Some(fill.bytes_per_key),
                most,
            });
        }
        for fill in fills.iter().filter(|fill| fill.subject == subject) {
            let keys = count(fill.keys);
            let clocks = [("wall", fill.wall), ("CPU", fill.cpu)];
            for ((clock, stalls), noise) in clocks.into_iter().zip(fill.noise) {
                let excess = stalls.over_1ms.saturating_sub(noise.over_1ms);
                targets.push(Target {
                    what: format!("inserts over 1 ms less noise, {subject}, {keys} keys, {clock}"),
                    measured: Some(excess as f64),
                    most: 0.0,
                });
            }
        }
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
