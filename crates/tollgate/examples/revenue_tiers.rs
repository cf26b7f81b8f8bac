//! Paid plans: each has a monthly quota and a rate.
//!
//! The limits are text, so they can live in a database beside the prices. Every
//! customer has a separate limiter (thousands of them cost little), so that one can change its plan. Ann
//! uses up the free plan within minutes of the new year, upgrades, and pays only for what she
//! used. Prints:
//!
//! ```text
//! free: 100 requests, then over the limit of 100/month calendar: retry in 30d 12h
//! pro: 9900 more, then over the limit of 10k/month calendar: retry in 30d 12h
//! February: 10000 more
//! enterprise: 5000 at once
//! ```

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate::{Carry, Denied, Limit, Limiter};

/// The limits of each plan: the rate, then the quota.
const PLANS: [(&str, [&str; 2]); 3] = [
    ("free", ["10/min", "100/month calendar"]),
    ("pro", ["100/s burst 200", "10k/month calendar"]),
    ("enterprise", ["1k/s burst 5k", "unlimited"]),
];
const QUOTA: usize = 1;

fn plan(name: &str) -> Result<Vec<Limit>, Box<dyn std::error::Error>> {
    let (_, limits) = PLANS.iter().find(|(plan, _)| *plan == name).ok_or("no such plan")?;
    Ok(limits.iter().map(|limit| limit.parse()).collect::<Result<_, _>>()?)
}

/// Sends at the full rate until the quota is exhausted; returns how many passed, and the refusal.
fn use_up(customer: &Limiter, clock: &ManualClock) -> (u32, Denied) {
    let mut passed = 0;
    loop {
        match customer.check() {
            Ok(()) => passed += 1,
            Err(denied) if denied.index == QUOTA => return (passed, denied),
            Err(denied) => clock.advance(denied.retry_after.expect("one fits")),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let ann = Limiter::builder().limits(plan("free")?).clock(&clock).build();
    let (passed, denied) = use_up(&ann, &clock);
    println!("free: {passed} requests, then {denied}");
    assert_eq!(passed, 100);

    // The new budget is the difference: the 100 count towards the 10,000.
    ann.change(plan("pro")?, Carry::Additive);
    let (passed, denied) = use_up(&ann, &clock);
    println!("pro: {passed} more, then {denied}");
    assert_eq!(passed, 9_900);

    // January ends exactly when the refusal has announced.
    let new_month = denied.retry_after.expect("months end");
    clock.advance(new_month - Duration::from_nanos(1));
    assert!(ann.check().is_err());
    clock.advance(Duration::from_nanos(1));
    let (passed, _) = use_up(&ann, &clock);
    println!("February: {passed} more");
    assert_eq!(passed, 10_000);

    ann.change(plan("enterprise")?, Carry::Reset);
    let burst = (0..10_000).filter(|_| ann.check().is_ok()).count();
    println!("enterprise: {burst} at once");
    assert_eq!(burst, 5_000);
    Ok(())
}
