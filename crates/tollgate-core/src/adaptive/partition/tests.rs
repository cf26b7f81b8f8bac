//! Claims lapse, and traffic without a share borrows only.

use super::*;

#[test]
fn a_claim_lapses() {
    let shares = Partitions::new(&[1, 1]).unwrap();
    let mut used = shares.empty();
    let late = Time::EPOCH + Span::from_millis(1_001);
    assert!((0..4).all(|_| shares.acquire(&mut used, 0, 4, Time::EPOCH)));
    assert!(!shares.acquire(&mut used, 1, 4, Time::EPOCH));
    used.release(0);
    assert!(!shares.acquire(&mut used, 0, 4, Time::EPOCH + Span::from_secs(1)));
    assert!(shares.acquire(&mut used, 0, 4, late));
}

#[test]
fn traffic_without_a_partition_borrows_only() {
    let shares = Partitions::new(&[3, 1]).unwrap();
    let mut used = shares.empty();
    assert!(shares.acquire(&mut used, 99, 1, Time::EPOCH));
    assert!(!shares.acquire(&mut used, 0, 1, Time::EPOCH));
    used.release(99);
    used.release(99);
    assert!(!shares.acquire(&mut used, 99, 1, Time::EPOCH));
    assert!(shares.acquire(&mut used, 0, 1, Time::EPOCH));
    assert_eq!((used.total(), used.of(0), used.of(99)), (1, 1, 0));
    assert_eq!(Partitions::new(&[0, 0]), Err(InvalidLimit::ZeroAmount));
}
