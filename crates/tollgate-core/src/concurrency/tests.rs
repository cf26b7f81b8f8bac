//! Worked cases of the concurrency limit.

use super::*;

fn at(secs: u64) -> Time {
    Time::EPOCH + Span::from_secs(secs)
}

fn after(secs: u64) -> Retry {
    Retry::After(Span::from_secs(secs))
}

fn limit(n: u64) -> Concurrency {
    Concurrency::new(n, Span::from_secs(10)).unwrap()
}

#[test]
fn a_lease_expires_to_the_nanosecond() {
    let limit = limit(1);
    let mut state = ConcurrencyState::default();
    assert!(limit.acquire(&mut state, at(0), 1, 1).allowed);
    let early = at(10) - Span::from_nanos(1);
    assert_eq!(limit.acquire(&mut state, early, 1, 2).retry, Retry::After(Span::from_nanos(1)));
    assert!(limit.acquire(&mut state, at(10), 1, 2).allowed);
}

#[test]
fn a_late_release_does_not_free_the_permit_of_another_holder() {
    let limit = limit(1);
    let mut state = ConcurrencyState::default();
    limit.acquire(&mut state, at(0), 1, 1);
    limit.acquire(&mut state, at(10), 1, 2);
    assert!(!limit.release(&mut state, at(11), 1));
    assert_eq!(limit.in_flight(&state, at(11)), 1);
    assert!(limit.release(&mut state, at(11), 2));
    assert!(!limit.release(&mut state, at(11), 2), "only once");
}

#[test]
fn a_renewed_lease_outlives_the_others() {
    let limit = limit(2);
    let mut state = ConcurrencyState::default();
    limit.acquire(&mut state, at(0), 1, 1);
    limit.acquire(&mut state, at(1), 1, 2);
    assert!(limit.renew(&mut state, at(5), 1));
    assert_eq!(limit.acquire(&mut state, at(6), 1, 3).retry, after(5), "2 expires first now");
    assert_eq!(limit.full_at(&state), at(15));
    assert!(!limit.renew(&mut state, at(11), 2));
    assert_eq!(limit.peek(&state, at(11)).remaining, 1);
}

#[test]
fn a_denied_request_waits_for_as_many_leases_as_it_needs_and_changes_nothing() {
    let limit = limit(5);
    let mut state = ConcurrencyState::default();
    limit.acquire(&mut state, at(0), 2, 1);
    limit.acquire(&mut state, at(3), 3, 2);
    let before = state.clone();
    assert_eq!(limit.acquire(&mut state, at(4), 1, 3).retry, after(6));
    assert_eq!(limit.acquire(&mut state, at(4), 4, 3).retry, after(9));
    assert_eq!(limit.acquire(&mut state, at(4), 6, 3).retry, Retry::Never);
    assert_eq!(state, before);
}

#[test]
fn a_repeated_id_takes_no_second_permit() {
    let limit = limit(2);
    let mut state = ConcurrencyState::default();
    limit.acquire(&mut state, at(0), 1, 1);
    assert_eq!(limit.acquire(&mut state, at(5), 1, 1).remaining, 1);
    assert_eq!(limit.full_at(&state), at(15), "the lease starts anew");
    assert!(!limit.acquire(&mut state, at(5), 3, 1).allowed);
    assert_eq!(limit.in_flight(&state, at(5)), 1, "a denied request keeps its lease");
    assert!(limit.acquire(&mut state, at(5), 0, 9).allowed);
    assert_eq!(state.leases().len(), 1, "a cost of zero takes no lease");
}

#[test]
fn a_lowered_limit_denies_until_enough_have_finished() {
    let high = limit(3);
    let low = high.with_limit(1);
    let mut state = ConcurrencyState::default();
    (1..=3).for_each(|id| assert!(high.acquire(&mut state, at(id), 1, id).allowed));
    assert_eq!(low.acquire(&mut state, at(4), 1, 4).retry, after(9));
    assert_eq!(low.peek(&state, at(4)).overdrawn, Span::from_secs(8));
    assert!(low.release(&mut state, at(4), 1) && low.release(&mut state, at(4), 2));
    assert!(!low.acquire(&mut state, at(4), 1, 4).allowed);
    assert!(low.release(&mut state, at(4), 3));
    assert!(low.acquire(&mut state, at(4), 1, 4).allowed);
    assert_eq!(high.with_limit(0).capacity(), 1);
}

#[test]
fn invalid_parameters_are_refused() {
    assert_eq!(Concurrency::new(0, Span::MAX), Err(InvalidLimit::ZeroAmount));
    assert_eq!(Concurrency::new(1, Span::ZERO), Err(InvalidLimit::ZeroPeriod));
    assert_eq!(Concurrency::new(1, Span::MAX), Err(InvalidLimit::PeriodTooLong));
    assert_eq!(Concurrency::new(u64::MAX, Span::MAX), Err(InvalidLimit::AmountTooLarge(u64::MAX)));
}

/// Compares many leases, growing and shrinking in number, with a list that is sorted each time.
#[test]
fn trees_and_lists_of_leases_behave_alike() {
    let limit = Concurrency::new(1_000, Span::from_secs(10)).unwrap();
    let (mut state, mut model) = (ConcurrencyState::default(), Vec::<Lease>::new());
    let (mut random, mut extremes) = (7_u64, 0);
    let mut any = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let mut now = at(0);
    for step in 0..20_000_u64 {
        // Many leases arrive and then most end or expire, in turn.
        let rush = step / 1_000 % 2 == 0;
        now = now + Span::from_millis(if rush { 4 } else { 100 });
        model.retain(|lease| lease.expires > now);
        let id = any(600);
        let index = model.iter().position(|lease| lease.id == id);
        match any(if rush { 8 } else { 3 }) {
            0 => {
                assert_eq!(limit.release(&mut state, now, id), index.is_some());
                index.map(|index| model.remove(index));
            }
            1 => {
                assert_eq!(limit.renew(&mut state, now, id), index.is_some());
                let renewed = now + limit.lease();
                index.into_iter().for_each(|index| model[index].expires = renewed);
            }
            _ => {
                let cost = 1 + any(2);
                let others = model.iter().filter(|lease| lease.id != id);
                let fits = others.map(|lease| lease.cost).sum::<u64>() + cost <= 1_000;
                assert_eq!(limit.acquire(&mut state, now, cost, id).allowed, fits);
                if fits {
                    index.map(|index| model.remove(index));
                    model.push(Lease { id, cost, expires: now + limit.lease() });
                }
            }
        }
        model.sort_by_key(|lease| (lease.expires, lease.id));
        assert!(state.leases().eq(model.iter().copied()), "{step}");
        let in_flight = model.iter().map(|lease| lease.cost).sum::<u64>();
        assert_eq!(limit.in_flight(&state, now), in_flight);
        assert_eq!(limit.full_at(&state), model.last().map_or(Time::EPOCH, |lease| lease.expires));
        if step % 1_000 == 999 {
            assert_eq!(state, model.iter().rev().copied().collect(), "in any order of insertion");
            extremes += usize::from(if rush { model.len() > 300 } else { model.len() < 60 });
        }
    }
    assert_eq!(extremes, 20, "many leases in each rush, and few after it");
}
