//! The conformance suite: cases that every store must pass.
//!
//! A store implements a [`Harness`], which creates an empty store and moves its time. The cases
//! read only the clock of the harness and compare no absolute times. A store with its own clock
//! can therefore move it by an offset, or wait in real time (with a short [`Harness::period`] and
//! a coarse [`Harness::resolution`]). [`random_steps`] runs random requests on the store and on a
//! model, which is the plain algorithms on a map, and compares every verdict.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::testing::{ManualClock, conformance};
//! use tollgate::{MemoryStore, Time};
//!
//! struct Memory(ManualClock);
//!
//! impl conformance::Harness for Memory {
//!     type Store = MemoryStore;
//!     async fn store(&self) -> MemoryStore {
//!         MemoryStore::new().clock(&self.0)
//!     }
//!     async fn now(&self) -> Time {
//!         self.0.now()
//!     }
//!     async fn advance(&self, by: Duration) {
//!         self.0.advance(by);
//!     }
//! }
//!
//! # fn block_on(future: impl Future<Output = ()>) {
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
//! # }
//! let memory = Memory(ManualClock::new());
//! block_on(conformance::run_case(&memory, "a_denied_request_passes_at_retry_after"));
//! ```

mod actions;
mod algorithms;
mod atomicity;
mod changes;
mod concurrency;
mod keys;
mod model;
mod random;
mod reserves;
mod store_under_test;

use std::future::Future;
use std::time::Duration;

use tollgate_core::{Span, Time};

use self::store_under_test::StoreUnderTest;
use crate::Store;

pub use self::random::random_steps;

/// Creates stores for the suite and moves their time.
pub trait Harness {
    /// The store under test.
    type Store: Store;

    /// Creates an empty store.
    fn store(&self) -> impl Future<Output = Self::Store>;

    /// Returns the current time of the stores.
    fn now(&self) -> impl Future<Output = Time>;

    /// Advances the time of the stores, with a manual clock, a clock offset or by waiting.
    fn advance(&self, by: Duration) -> impl Future<Output = ()>;

    /// Returns the clock resolution of the store; spans in verdicts may differ by less than it.
    fn resolution(&self) -> Span {
        Span::from_nanos(1)
    }

    /// Returns the period of the tested limits, except of calendar limits.
    ///
    /// The period must be in whole milliseconds and divisible by 60.
    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }
}

macro_rules! suite {
    ($($module:ident: $($case:ident)*;)*) => {
        const CASES: &[&str] = &[$($(stringify!($case),)*)*];

        async fn dispatch<H: Harness>(store: &StoreUnderTest<'_, H>, case: &str) {
            match case {
                $($(stringify!($case) => $module::$case(store).await,)*)*
                _ => panic!("no conformance case is called {case}"),
            }
        }
    };
}

suite! {
    algorithms:
        limits_allow_their_amount_then_deny
        a_denied_request_passes_at_retry_after
        a_key_is_like_a_new_one_at_reset_after
        calendars_allow_their_amount_until_their_period_ends
        denied_requests_cost_nothing_unless_counted
        unlimited_never_denies;
    actions:
        peeking_spends_nothing
        a_cost_of_zero_spends_nothing
        a_cost_above_capacity_never_passes
        a_reservation_waits_no_longer_than_max_wait
        a_check_waits_no_longer_than_its_patience
        spending_without_a_check_makes_debt
        a_refund_never_goes_above_full
        a_reset_forgets_what_was_spent
        large_numbers_do_not_overflow;
    concurrency:
        no_more_permits_are_taken_than_allowed
        a_lease_expires
        a_renewed_lease_starts_anew
        a_release_frees_exactly_one
        a_late_release_frees_no_other_permit
        a_lease_taken_twice_counts_once
        an_adaptive_limit_learns_from_releases;
    reserves:
        a_reserve_is_left
        a_request_with_a_reserve_passes_at_retry_after
        a_reserve_is_not_charged
        a_full_limit_allows_any_cost_up_to_its_capacity
        a_request_with_a_reserve_never_waits
        a_reserve_keeps_permits_free
        a_share_of_an_adaptive_limit_moves_with_it
        a_reserve_in_a_mix_is_all_or_none;
    atomicity:
        verdicts_come_in_the_order_of_the_checks
        one_denial_charges_no_counter
        one_denial_leaves_no_reservation
        each_check_has_its_own_patience
        every_mix_of_algorithms_is_all_or_none
        the_same_check_twice_is_charged_twice
        a_call_without_checks_is_valid;
    keys:
        two_keys_are_independent
        one_key_under_two_counter_ids_is_two_counters
        keys_of_all_kinds_are_distinct;
    changes:
        a_changed_limit_carries_over
        a_change_of_algorithm_carries_over
        a_key_is_carried_over_as_of_the_change
        a_change_in_the_future_is_carried_over_as_of_now
        a_key_unused_for_two_changes_is_carried_over
        a_counter_with_varying_limits_is_one_arrival_time
        leases_stay_valid_when_the_limit_changes;
}

/// Returns the names of all cases.
pub fn cases() -> &'static [&'static str] {
    CASES
}

/// Runs all cases, each on a new store.
///
/// # Panics
///
/// If the store does not conform; standard error then names the case that failed.
pub async fn run<H: Harness>(harness: &H) {
    for case in CASES {
        run_case(harness, case).await;
    }
}

/// Runs the case named `case`.
///
/// # Panics
///
/// If the store does not conform, or there is no such case.
pub async fn run_case<H: Harness>(harness: &H, case: &str) {
    let reporter = PanicReporter(case);
    let store = StoreUnderTest::new(harness).await;
    // The future is as large as that of the largest case, so it is allocated on the heap.
    Box::pin(dispatch(&store, case)).await;
    std::mem::forget(reporter);
}

/// Prints the name of a case if it panics.
struct PanicReporter<'a>(&'a str);

impl Drop for PanicReporter<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("conformance: the case `{}` failed", self.0);
        }
    }
}
