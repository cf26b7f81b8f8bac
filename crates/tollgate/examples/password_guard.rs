//! Guessing passwords: limited per account and per address, and only failures count.
//!
//! An attempt reserves its cost before the password is checked, so that a thousand guesses at the
//! same time cannot all pass before the first is charged. A right password cancels the hold, a wrong
//! one settles it. One user and two attackers try for an hour; prints how many attempts each got:
//!
//! ```text
//! ann, with some typing errors:        120 of  120 attempts checked
//! hammering one account, many hosts:    24 of 3600
//! spraying many accounts, one host:     39 of 3600
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate::{Denied, KeyedLimiter, Limiter};

struct Guard {
    per_account: KeyedLimiter,
    per_address: KeyedLimiter,
}

impl Guard {
    /// Returns whether the password was right; an error if the attempt was refused.
    fn log_in(&self, account: &str, address: IpAddr, right: bool) -> Result<bool, Denied> {
        let by_address = self.per_address.reserve(address, 1)?;
        let by_account = match self.per_account.reserve(account, 1) {
            Ok(hold) => hold,
            Err(denied) => {
                by_address.cancel(); // both or none
                return Err(denied);
            }
        };
        for hold in [by_account, by_address] {
            hold.settle(if right { 0 } else { 1 });
        }
        Ok(right)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let keyed = |limit: &str| -> Result<KeyedLimiter, tollgate::limit::ParseLimitError> {
        Ok(Limiter::builder().limit(limit.parse()?).clock(&clock).build_keyed())
    };
    let guard = Guard { per_account: keyed("5/15min")?, per_address: keyed("20/h")? };
    let home = IpAddr::from([192, 0, 2, 7]);
    let den = IpAddr::from([203, 0, 113, 66]);
    let (mut ann, mut hammer, mut spray) = (0, 0, 0);
    for second in 0..3_600_u32 {
        // Ann logs in twice a minute. One time in ten she mistypes.
        if second % 30 == 0 {
            ann += u32::from(guard.log_in("ann", home, second % 300 != 0).is_ok());
        }
        // A botnet guesses at bob's password, never twice from one address.
        let bot = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + second));
        hammer += u32::from(guard.log_in("bob", bot, false).is_ok());
        // One host tries "123456" on account after account.
        spray += u32::from(guard.log_in(&format!("user{second}"), den, false).is_ok());
        clock.advance(Duration::from_secs(1));
    }
    println!("ann, with some typing errors:       {ann:4} of  120 attempts checked");
    println!("hammering one account, many hosts:  {hammer:4} of 3600");
    println!("spraying many accounts, one host:   {spray:4} of 3600");
    assert_eq!(ann, 120);
    assert_eq!(hammer, 5 + 3_599 / 180); // the burst, then one every three minutes
    assert_eq!(spray, 20 + 3_599 / 180);
    Ok(())
}
