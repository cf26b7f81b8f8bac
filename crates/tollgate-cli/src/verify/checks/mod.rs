//! The checks, in the order in which they run.

mod all_or_none;
mod bypass;
mod byte_caps;
mod clock_steps;
mod crash;
mod hostile_input;
mod http2_attacks;
mod http_attacks;
mod resp_attacks;
mod retry_after;
mod shared_limit;
mod store_address;
mod store_faults;
mod threads;

use std::time::Duration;

use super::check::VerifyCheck;

/// All checks.
pub(super) static CHECKS: &[VerifyCheck] = &[
    VerifyCheck {
        name: "threads",
        guarantees: &[1],
        title: "no interval admits more than the burst and the rate, under threads",
        time_limit: Duration::from_secs(60),
        run: threads::run,
    },
    VerifyCheck {
        name: "retry-after",
        guarantees: &[1],
        title: "a refused request passes at retry_after, and not a nanosecond earlier",
        time_limit: Duration::from_secs(30),
        run: retry_after::run,
    },
    VerifyCheck {
        name: "all-or-none",
        guarantees: &[1],
        title: "several limits are charged together or not at all",
        time_limit: Duration::from_secs(30),
        run: all_or_none::run,
    },
    VerifyCheck {
        name: "byte-caps",
        guarantees: &[7],
        title: "memory is capped, and a flood of keys frees no exhausted one",
        time_limit: Duration::from_secs(90),
        run: byte_caps::run,
    },
    VerifyCheck {
        name: "clock-steps",
        guarantees: &[8],
        title: "a step of the clock changes no decision and locks no key out",
        time_limit: Duration::from_secs(30),
        run: clock_steps::run,
    },
    VerifyCheck {
        name: "crash",
        guarantees: &[6],
        title: "kill -9 loses at most one interval, a damaged snapshot is moved aside",
        time_limit: Duration::from_secs(90),
        run: crash::run,
    },
    VerifyCheck {
        name: "hostile-input",
        guarantees: &[11],
        title: "hostile bytes on any door neither stop the server nor take its memory",
        time_limit: Duration::from_secs(90),
        run: hostile_input::run,
    },
    VerifyCheck {
        name: "bypass",
        guarantees: &[10],
        title: "one caller, one counter: no spelling of a request passes a limit",
        time_limit: Duration::from_secs(90),
        run: bypass::run,
    },
    VerifyCheck {
        name: "shared-limit",
        guarantees: &[2],
        title: "servers that share a store stay within the bound of each mode",
        time_limit: Duration::from_secs(30),
        run: shared_limit::run,
    },
    VerifyCheck {
        name: "store-faults",
        guarantees: &[4, 5, 9],
        title: "a sick store costs its timeout once, and no request is charged twice",
        time_limit: Duration::from_secs(60),
        run: store_faults::run,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_checks_together_take_at_most_ten_minutes() {
        let all: Duration = CHECKS.iter().map(|check| check.time_limit).sum();
        assert!(all <= Duration::from_secs(600), "{all:?}");
    }

    #[test]
    fn the_page_of_guarantees_lists_every_check() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guarantees.md");
        let page = std::fs::read_to_string(page).unwrap();
        for check in CHECKS {
            let numbers: Vec<String> = check.guarantees.iter().map(u8::to_string).collect();
            let row = format!("| `{}` | {} |", check.name, numbers.join(", "));
            assert!(page.contains(&row), "{row}");
        }
    }
}
