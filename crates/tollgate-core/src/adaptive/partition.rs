//! One limit divided among kinds of traffic, each sure of its share, together never above it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::{InvalidLimit, Span, Time};

/// Shares of a concurrency limit by weight, for instance 80 for live traffic and 20 for batch.
///
/// A partition may always use its share, `⌊limit · weight / sum⌋` and at least 1, and borrow what
/// others leave unused. The total never exceeds the limit, so what is lent comes back only as requests finish;
/// to make sure it does, a partition refused *within* its share has a claim on the next slots
/// that come free: borrowers are refused until it has been served, or has not asked for `hold`.
///
/// Two other ways were rejected. Upstream lets a partition use its share even when others have
/// filled the limit, and rounds shares up: a limit of 10 lets 18 in. Fixed walls waste whatever
/// one side does not need. The price of this way: after a quiet spell a partition may have to
/// wait for one request of a borrower to finish.
///
/// ```
/// use tollgate_core::Time;
/// use tollgate_core::adaptive::Partitions;
///
/// const LIVE: usize = 0;
/// const BATCH: usize = 1;
/// let shares = Partitions::new(&[80, 20])?;
/// let (mut used, now) = (shares.empty(), Time::EPOCH);
/// for _ in 0..10 {
///     assert!(shares.acquire(&mut used, BATCH, 10, now)); // nobody else wants it
/// }
/// assert!(!shares.acquire(&mut used, LIVE, 10, now)); // full, but from now on live has a claim
/// used.release(BATCH);
/// assert!(!shares.acquire(&mut used, BATCH, 10, now));
/// assert!(shares.acquire(&mut used, LIVE, 10, now));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// One more than was asked for: what names no partition has no share, and may borrow.
    weights: Box<[u64]>,
    sum: u128,
    hold: Span,
}

/// Who is in flight, by partition.
///
/// ```
/// use tollgate_core::{Time, adaptive::Partitions};
/// let shares = Partitions::new(&[1])?;
/// let mut used = shares.empty();
/// shares.acquire(&mut used, 0, 5, Time::EPOCH);
/// assert_eq!((used.total(), used.of(0)), (1, 1));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    total: u64,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    in_flight: u64,
    /// Refusals within the share not made good yet, and until when they count.
    claims: u64,
    until: Time,
}

impl Part {
    /// How many free slots are spoken for.
    fn claimed(&self, share: u64, now: Time) -> u64 {
        if now > self.until { 0 } else { self.claims.min(share.saturating_sub(self.in_flight)) }
    }
}

impl Occupancy {
    /// All in flight.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// In flight for one partition.
    pub fn of(&self, partition: usize) -> u64 {
        self.parts[self.index(partition)].in_flight
    }

    /// A request of `partition` finished. Without a matching acquire nothing happens.
    pub fn release(&mut self, partition: usize) {
        let index = self.index(partition);
        if self.parts[index].in_flight > 0 {
            self.parts[index].in_flight -= 1;
            self.total -= 1;
        }
    }

    fn index(&self, partition: usize) -> usize {
        partition.min(self.parts.len() - 1)
    }
}

impl Partitions {
    /// Partitions 0, 1, 2, … with these weights; any other number stands for traffic without a
    /// share. At least one weight must be above zero.
    pub fn new(weights: &[u64]) -> Result<Partitions, InvalidLimit> {
        let sum: u128 = weights.iter().copied().map(u128::from).sum();
        if sum == 0 {
            return Err(InvalidLimit::ZeroAmount);
        }
        let weights = weights.iter().copied().chain([0]).collect();
        Ok(Partitions { weights, sum, hold: Span::from_secs(1) })
    }

    /// How long a partition refused within its share keeps its claim (1 s).
    pub fn hold(self, hold: Span) -> Partitions {
        Partitions { hold, ..self }
    }

    /// Nobody in flight.
    pub fn empty(&self) -> Occupancy {
        Occupancy { total: 0, parts: alloc::vec![Part::default(); self.weights.len()] }
    }

    /// What `partition` has a claim on under `limit`. Not 0 for any weight above 0, or a small
    /// one could starve; where that promises more than a small limit holds, the first comes first.
    pub fn share(&self, partition: usize, limit: u64) -> u64 {
        let weight = self.weights.get(partition).copied().unwrap_or(0);
        let share = (u128::from(limit) * u128::from(weight) / self.sum) as u64;
        share.max(limit.min(weight).min(1))
    }

    /// Lets a request of `partition` in, or not. The limit may differ at every call; if it fell
    /// below what is in flight, nobody enters until enough have finished.
    pub fn acquire(&self, used: &mut Occupancy, partition: usize, limit: u64, now: Time) -> bool {
        let index = used.index(partition);
        let within_share = used.parts[index].in_flight < self.share(index, limit);
        let free = limit.saturating_sub(used.total);
        let admitted = free > if within_share { 0 } else { self.claimed(used, limit, now) };
        let part = &mut used.parts[index];
        if admitted {
            part.in_flight += 1;
            part.claims = part.claims.saturating_sub(1);
            used.total += 1;
        } else if within_share {
            part.claims = if now > part.until { 1 } else { part.claims.saturating_add(1) };
            part.until = now + self.hold;
        }
        admitted
    }

    fn claimed(&self, used: &Occupancy, limit: u64, now: Time) -> u64 {
        let parts = used.parts.iter().enumerate();
        let claimed = parts.map(|(i, part)| part.claimed(self.share(i, limit), now));
        claimed.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests;
