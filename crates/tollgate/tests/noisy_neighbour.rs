//! Nine polite clients and a noisy one, at a hundred times their rate, in front of an upstream that
//! can only do so much: seeded, event by event, under virtual time.
//!
//! `cargo nextest run -p tollgate --test noisy_neighbour --no-capture` prints the figures.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tollgate::rules::RuleLimiter;
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request};

/// The upstream: so many workers, each busy for so long with a request: 1,600 a second.
const WORKERS: usize = 16;
const SERVICE_US: u64 = 10_000;
/// Whoever would have to wait longer than that is turned away.
const LONGEST_WAIT_US: u64 = 250_000;

const POLITE: usize = 9;
const POLITE_PER_S: u64 = 20;
const SECONDS: u64 = 20;
/// The neighbour moves in when everybody has settled.
const MOVES_IN_US: u64 = 1_000_000;

/// Half of what the upstream can do, shared fairly.
const RULES: &str = "
rules:
  - { name: upstream, limit: 800/s burst 200, fair: { by: client } }
";

/// When somebody asks.
struct Arrival {
    at_us: u64,
    client: usize,
}

/// What the polite ones saw.
#[derive(Debug, Default)]
struct Seen {
    latencies_us: Vec<u64>,
    errors: usize,
}

impl Seen {
    fn p99_us(&mut self) -> u64 {
        self.latencies_us.sort_unstable();
        self.latencies_us[self.latencies_us.len() * 99 / 100]
    }

    fn error_rate(&self) -> f64 {
        self.errors as f64 / (self.errors + self.latencies_us.len()) as f64
    }
}

/// The same arrivals for the same clients, whoever else is there.
fn arrivals(noisy: bool) -> Vec<Arrival> {
    let mut all = Vec::new();
    for client in 0..POLITE + usize::from(noisy) {
        let mut dice = fastrand::Rng::with_seed(client as u64 + 1);
        let (rate, mut at_us) = match client {
            POLITE => (100 * POLITE_PER_S, MOVES_IN_US),
            _ => (POLITE_PER_S, 0),
        };
        loop {
            // Nobody knows of the others: pauses are exponential.
            at_us += (-(1.0 - dice.f64()).ln() * 1e6 / rate as f64) as u64;
            if at_us > SECONDS * 1_000_000 {
                break;
            }
            all.push(Arrival { at_us, client });
        }
    }
    all.sort_by_key(|arrival| (arrival.at_us, arrival.client));
    all
}

fn run(noisy: bool, rules: Option<&str>) -> Seen {
    let clock = ManualClock::new();
    let limiter: Option<RuleLimiter> =
        rules.map(|rules| Limiter::builder().clock(&clock).build_rules(rules.parse().unwrap()));
    let names: Vec<String> = (0..=POLITE).map(|client| format!("client-{client}")).collect();
    let mut free_at_us: BinaryHeap<Reverse<u64>> = (0..WORKERS).map(|_| Reverse(0)).collect();
    let mut seen = Seen::default();
    let mut now_us = 0;
    for Arrival { at_us, client } in arrivals(noisy) {
        clock.advance(Duration::from_micros(at_us - now_us));
        now_us = at_us;
        let request = Request::new("GET", "/").attribute("client", names[client].as_str());
        let allowed = limiter.as_ref().is_none_or(|limiter| limiter.decide(&request).allowed);
        let Reverse(free) = *free_at_us.peek().unwrap();
        let begins = free.max(at_us);
        let served = allowed && begins - at_us <= LONGEST_WAIT_US;
        if served {
            free_at_us.pop();
            free_at_us.push(Reverse(begins + SERVICE_US));
        }
        match served {
            _ if client == POLITE => {}
            true => seen.latencies_us.push(begins + SERVICE_US - at_us),
            false => seen.errors += 1,
        }
    }
    seen
}

#[test]
fn a_noisy_neighbour_harms_nobody_behind_tollgate() {
    let mut alone = run(false, None);
    let mut harmed = run(true, None);
    let mut guarded = run(true, Some(RULES));
    let mut plain = run(true, Some("rules: [{ name: upstream, limit: 800/s burst 200 }]"));
    for (name, seen) in [
        ("without the neighbour", &mut alone),
        ("with it, unlimited", &mut harmed),
        ("with it, a plain limit", &mut plain),
        ("with it, a fair limit", &mut guarded),
    ] {
        println!(
            "{name:24} p99 {:7.2} ms   errors {:5.2} %",
            seen.p99_us() as f64 / 1e3,
            100.0 * seen.error_rate()
        );
    }
    assert_eq!(alone.error_rate(), 0.0);
    // The harm.
    assert!(harmed.p99_us() > 10 * alone.p99_us() && harmed.error_rate() > 0.1, "{harmed:?}");
    assert!(plain.error_rate() > 0.3, "a plain limit spares the upstream, not the polite ones");
    // And none of it.
    assert!(guarded.p99_us() * 10 <= alone.p99_us() * 11, "{}", guarded.p99_us());
    assert_eq!(guarded.error_rate(), 0.0);
}
