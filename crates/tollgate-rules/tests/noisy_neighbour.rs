//! A simulation of nine polite clients and a noisy one that share an upstream of bounded capacity.
//!
//! The noisy client sends at a hundred times the rate of a polite one. The simulation is seeded, and
//! runs event by event under virtual time.
//!
//! `cargo nextest run -p tollgate-rules --test noisy_neighbour --no-capture` prints the figures.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate_rules::{Request, RuleLimiter};

/// The workers of the upstream, which serve 1,600 requests a second.
const WORKERS: usize = 16;
/// The time for which a request occupies a worker.
const SERVICE_US: u64 = 10_000;
/// The maximum wait for a worker; requests that would wait longer fail.
const MAX_WAIT_US: u64 = 250_000;

const POLITE: usize = 9;
const POLITE_PER_S: u64 = 20;
const SECONDS: u64 = 20;
/// The start of the noisy client, when all polite ones are known.
const NOISE_STARTS_US: u64 = 1_000_000;

/// A fair limit at half the capacity of the upstream.
const RULES: &str = "
attributes: [client]
rules:
  - { name: upstream, limit: 800/s burst 200, fair: { by: client } }
";

/// The arrival of a request.
struct Arrival {
    at_us: u64,
    client: usize,
}

/// The results of the polite clients' requests.
#[derive(Debug, Default)]
struct PoliteResults {
    latencies_us: Vec<u64>,
    errors: usize,
}

impl PoliteResults {
    fn p99_us(&mut self) -> u64 {
        self.latencies_us.sort_unstable();
        self.latencies_us[self.latencies_us.len() * 99 / 100]
    }

    fn error_rate(&self) -> f64 {
        self.errors as f64 / (self.errors + self.latencies_us.len()) as f64
    }
}

/// Returns all arrivals; those of the polite clients are the same with and without the noisy one.
fn arrivals(noisy: bool) -> Vec<Arrival> {
    let mut all = Vec::new();
    for client in 0..POLITE + usize::from(noisy) {
        let mut rng = fastrand::Rng::with_seed(client as u64 + 1);
        let (rate, mut at_us) = match client {
            POLITE => (100 * POLITE_PER_S, NOISE_STARTS_US),
            _ => (POLITE_PER_S, 0),
        };
        loop {
            // Clients are independent, so their pauses are exponential.
            at_us += (-(1.0 - rng.f64()).ln() * 1e6 / rate as f64) as u64;
            if at_us > SECONDS * 1_000_000 {
                break;
            }
            all.push(Arrival { at_us, client });
        }
    }
    all.sort_by_key(|arrival| (arrival.at_us, arrival.client));
    all
}

fn run(noisy: bool, rules: Option<&str>) -> PoliteResults {
    let clock = ManualClock::new();
    let limiter: Option<RuleLimiter> =
        rules.map(|rules| RuleLimiter::builder().clock(&clock).build(rules.parse().unwrap()));
    let names: Vec<String> = (0..=POLITE).map(|client| format!("client-{client}")).collect();
    let mut free_at_us: BinaryHeap<Reverse<u64>> = (0..WORKERS).map(|_| Reverse(0)).collect();
    let mut results = PoliteResults::default();
    let mut now_us = 0;
    for Arrival { at_us, client } in arrivals(noisy) {
        clock.advance(Duration::from_micros(at_us - now_us));
        now_us = at_us;
        let request = Request::new("GET", "/").attribute("client", names[client].as_str());
        let allowed = limiter.as_ref().is_none_or(|limiter| limiter.decide_now(&request).allowed);
        let Reverse(free) = *free_at_us.peek().unwrap();
        let begins = free.max(at_us);
        let served = allowed && begins - at_us <= MAX_WAIT_US;
        if served {
            free_at_us.pop();
            free_at_us.push(Reverse(begins + SERVICE_US));
        }
        match served {
            _ if client == POLITE => {}
            true => results.latencies_us.push(begins + SERVICE_US - at_us),
            false => results.errors += 1,
        }
    }
    results
}

#[test]
fn a_fair_limit_protects_polite_clients_from_a_noisy_one() {
    let mut alone = run(false, None);
    let mut harmed = run(true, None);
    let mut guarded = run(true, Some(RULES));
    let mut plain = run(true, Some("rules: [{ name: upstream, limit: 800/s burst 200 }]"));
    for (name, results) in [
        ("without the noisy client", &mut alone),
        ("with it, unlimited", &mut harmed),
        ("with it, a plain limit", &mut plain),
        ("with it, a fair limit", &mut guarded),
    ] {
        println!(
            "{name:26} p99 {:7.2} ms   errors {:5.2} %",
            results.p99_us() as f64 / 1e3,
            100.0 * results.error_rate()
        );
    }
    assert_eq!(alone.error_rate(), 0.0);
    // Without a fair limit the polite clients suffer.
    assert!(harmed.p99_us() > 10 * alone.p99_us() && harmed.error_rate() > 0.1, "{harmed:?}");
    assert!(plain.error_rate() > 0.3, "a plain limit protects only the upstream");
    // With a fair limit they notice nothing.
    assert!(guarded.p99_us() * 10 <= alone.p99_us() * 11, "{}", guarded.p99_us());
    assert_eq!(guarded.error_rate(), 0.0);
}
