//! What every store must do, as a suite that any store can run.
//!
//! A store brings a [`Harness`]: how to get an empty store, and how to move its time. The cases
//! read no clock but the harness's and compare no absolute moments, so that a store with a clock
//! of its own can move it by an offset, or really wait (with a short [`Harness::period`] and a
//! coarse [`Harness::resolution`]). [`random_steps`] then runs the same random requests on the
//! store and on a [model](self) that is nothing but the algorithms on a map, and compares every
//! verdict.
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
mod changes;
mod keys;
mod model;
mod places;
mod random;
mod reserves;
mod subject;
mod together;

use std::future::Future;
use std::time::Duration;

use tollgate_core::{Span, Time};

use self::subject::Subject;
use crate::Store;

pub use self::random::random_steps;

/// How the suite gets hold of a store and of its time.
pub trait Harness {
    /// The store under test.
    type Store: Store;

    /// A store that holds nothing.
    fn store(&self) -> impl Future<Output = Self::Store>;

    /// What time it is for the stores.
    fn now(&self) -> impl Future<Output = Time>;

    /// Lets that much time go by for the stores: by moving a manual clock, by moving the offset
    /// of a real one, or by waiting.
    fn advance(&self, by: Duration) -> impl Future<Output = ()>;

    /// The shortest time the store tells apart. Answers may differ by less than that.
    fn resolution(&self) -> Span {
        Span::from_nanos(1)
    }

    /// The period of the limits tested; calendars, whose periods are given, apart. Whole
    /// milliseconds, divisible by 60.
    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }
}

macro_rules! suite {
    ($($module:ident: $($case:ident)*;)*) => {
        const CASES: &[&str] = &[$($(stringify!($case),)*)*];

        async fn dispatch<H: Harness>(subject: &Subject<'_, H>, case: &str) {
            match case {
                $($(stringify!($case) => $module::$case(subject).await,)*)*
                _ => panic!("no conformance case is called {case}"),
            }
        }
    };
}

suite! {
    algorithms:
        limits_allow_what_they_say_then_deny
        a_denied_request_passes_at_retry_after
        a_key_is_as_good_as_new_at_reset_after
        calendars_allow_what_they_say_until_their_period_ends
        denied_requests_cost_nothing_unless_counted
        unlimited_never_denies;
    actions:
        peeking_spends_nothing
        a_cost_of_nothing_spends_nothing
        a_cost_above_capacity_never_passes
        a_reservation_waits_no_longer_than_accepted
        a_check_waits_no_longer_than_its_patience
        spending_without_asking_makes_debt
        a_refund_never_goes_above_full
        a_reset_forgets_what_was_spent
        large_numbers_do_not_overflow;
    places:
        as_many_are_in_flight_as_allowed
        a_lease_runs_out
        a_renewed_lease_starts_anew
        a_release_frees_exactly_one
        a_late_release_frees_nobody_else
        a_lease_taken_twice_counts_once
        an_adaptive_limit_learns;
    reserves:
        what_must_be_left_is_left
        who_must_leave_something_passes_at_retry_after
        a_reserve_is_not_charged
        a_full_limit_lets_anything_it_can_hold_pass
        who_must_leave_something_never_waits
        places_stay_free_for_others
        a_share_of_an_adaptive_limit_moves_with_it
        a_reserve_in_a_mix_is_all_or_none;
    together:
        verdicts_come_in_the_order_asked
        one_denial_charges_nobody
        one_denial_leaves_no_reservation
        each_check_has_its_own_patience
        every_mix_of_kinds_is_all_or_none
        the_same_check_twice_is_charged_twice
        no_check_at_all_is_fine;
    keys:
        two_keys_are_independent
        one_key_in_two_buckets_is_two_counters
        keys_of_all_kinds_are_distinct;
    changes:
        a_changed_limit_carries_over
        a_change_of_kind_carries_over
        a_key_is_carried_over_as_of_the_change
        a_change_yet_to_come_is_carried_over_as_of_now
        a_key_unseen_for_two_changes_is_found
        holders_stay_in_flight_when_the_limit_changes;
}

/// The names of all cases.
pub fn cases() -> &'static [&'static str] {
    CASES
}

/// Runs all cases, each on a store of its own.
///
/// # Panics
///
/// If the store does not conform; the case that found it is named on standard error.
pub async fn run<H: Harness>(harness: &H) {
    for case in CASES {
        run_case(harness, case).await;
    }
}

/// Runs the case of that name.
///
/// # Panics
///
/// If the store does not conform, or no case has that name.
pub async fn run_case<H: Harness>(harness: &H, case: &str) {
    let named = Named(case);
    let subject = Subject::new(harness).await;
    // On the heap: as large as the largest of the cases.
    Box::pin(dispatch(&subject, case)).await;
    std::mem::forget(named);
}

/// Says which case failed.
struct Named<'a>(&'a str);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("conformance: the case `{}` failed", self.0);
        }
    }
}
