//! A budget for each tenant protects the others from the flood of one.
//!
//! Twenty quiet tenants send 50 requests a second each; a noisy one sends 20,000. Under one
//! budget for all, the noisy tenant gets most of it. With a budget for each, the flood is limited
//! to its own. Runs ten seconds of virtual time, then prints how many requests passed:
//!
//! ```text
//!                      quiet tenants          the noisy one
//! one budget for all   111 of 10000        22986 of 200000
//! one for each       10000 of 10000         1099 of 200000
//! ```

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate::{Limit, Limiter};

const QUIET: u32 = 20;
const NOISY: u32 = 99;
const MILLIS: u32 = 10_000;

/// Returns how many requests of the quiet tenants and of the noisy one have passed.
fn run(clock: &ManualClock, mut check: impl FnMut(u32) -> bool) -> [u32; 2] {
    let mut passed = [0, 0];
    for ms in 0..MILLIS {
        clock.advance(Duration::from_millis(1));
        for _ in 0..20 {
            passed[1] += u32::from(check(NOISY));
        }
        // Every quiet tenant sends a request once in 20 ms.
        passed[0] += u32::from(check(ms % QUIET));
    }
    passed
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let for_all = Limiter::builder().limit("2100/s".parse()?).clock(&clock).build();
    let for_each = Limiter::builder().limit("100/s".parse::<Limit>()?).clock(&clock).build_keyed();

    let shared = run(&clock, |_| for_all.check().is_ok());
    let keyed = run(&clock, |tenant| for_each.check(tenant).is_ok());

    println!("                     quiet tenants          the noisy one");
    for (name, [quiet, noisy]) in [("one budget for all", shared), ("one for each", keyed)] {
        println!("{name:18} {quiet:5} of {MILLIS} {noisy:12} of {}", 20 * MILLIS);
    }
    assert!(shared[0] < MILLIS / 10, "the quiet tenants starve");
    assert_eq!(keyed[0], MILLIS, "not one request of theirs is refused");
    assert_eq!(keyed[1], 100 + 100 * MILLIS / 1_000 - 1, "its burst, and then its rate");
    Ok(())
}
