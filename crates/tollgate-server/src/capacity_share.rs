//! A bounded capacity of which one owner may use only a share, so that others always find some.

/// A number of entries and their total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CapacityUsage {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// A capacity, and the share that one owner may use of what other owners leave.
///
/// The share shrinks as others use more. So one owner, or a few, cannot use up everything, and a
/// single owner is not limited to a small fixed part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapacityShare {
    pub(crate) capacity: CapacityUsage,
    /// The share of one owner, in percent. With 100, one owner may use everything.
    pub(crate) percent: u64,
}

/// The reason why an entry does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CapacityExceeded {
    /// All owners together use the whole capacity.
    Total,
    /// The owner uses its share, which is this.
    Share(CapacityUsage),
}

impl CapacityUsage {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    pub(crate) fn remove(&mut self, bytes: u64) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn fits(self, entries: u64, bytes: u64, most: CapacityUsage) -> bool {
        self.count.saturating_add(entries) <= most.count
            && self.bytes.saturating_add(bytes) <= most.bytes
    }
}

impl CapacityShare {
    /// Checks whether an owner may add an entry; of the `total` in use, `own` is the owner's.
    ///
    /// An owner without entries may always add one, if there is capacity.
    pub(crate) fn check(
        &self,
        total: CapacityUsage,
        own: CapacityUsage,
        bytes: u64,
    ) -> Result<(), CapacityExceeded> {
        self.check_entries(total, own, 1, bytes)
    }

    /// Checks whether an owner's newest entry, already counted, may grow by a number of bytes.
    pub(crate) fn check_growth(
        &self,
        total: CapacityUsage,
        own: CapacityUsage,
        bytes: u64,
    ) -> Result<(), CapacityExceeded> {
        self.check_entries(total, own, 0, bytes)
    }

    fn check_entries(
        &self,
        total: CapacityUsage,
        own: CapacityUsage,
        entries: u64,
        bytes: u64,
    ) -> Result<(), CapacityExceeded> {
        if !total.fits(entries, bytes, self.capacity) {
            return Err(CapacityExceeded::Total);
        }
        if own.count + entries <= 1 {
            return Ok(());
        }
        let share = |capacity: u64, total: u64, own: u64| {
            let left = capacity.saturating_sub(total.saturating_sub(own));
            (u128::from(left) * u128::from(self.percent) / 100) as u64
        };
        let share = CapacityUsage {
            count: share(self.capacity.count, total.count, own.count).max(1),
            bytes: share(self.capacity.bytes, total.bytes, own.bytes),
        };
        match own.fits(entries, bytes, share) {
            true => Ok(()),
            false => Err(CapacityExceeded::Share(share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(count: u64, bytes: u64) -> CapacityUsage {
        CapacityUsage { count, bytes }
    }

    /// Adds entries of an owner until one is rejected; returns how many fit.
    fn fill(share: CapacityShare, total: &mut CapacityUsage) -> u64 {
        let mut own = CapacityUsage::default();
        while share.check(*total, own, 10).is_ok() {
            own.add(10);
            total.add(10);
        }
        own.count
    }

    #[test]
    fn owners_get_a_share_of_what_others_leave() {
        let share = CapacityShare { capacity: used(1_000, 100_000), percent: 25 };
        let mut total = CapacityUsage::default();
        let counts: Vec<u64> = (0..6).map(|_| fill(share, &mut total)).collect();
        assert_eq!(counts, [250, 187, 140, 105, 79, 59]);
        let all = CapacityShare { percent: 100, ..share };
        assert_eq!(fill(all, &mut CapacityUsage::default()), 1_000);
    }

    #[test]
    fn bytes_are_shared_as_well_and_one_entry_always_fits() {
        let share = CapacityShare { capacity: used(1_000, 100), percent: 25 };
        let (nothing, own) = (CapacityUsage::default(), used(1, 90));
        assert_eq!(share.check(nothing, nothing, 90), Ok(()));
        assert_eq!(share.check(own, own, 1), Err(CapacityExceeded::Share(used(250, 25))));
        assert_eq!(share.check(own, nothing, 11), Err(CapacityExceeded::Total));
        assert_eq!(share.check(own, nothing, 10), Ok(()));
        assert_eq!(share.check_growth(used(1, 20), used(1, 20), 80), Ok(()));
        assert!(share.check_growth(used(2, 20), used(2, 20), 10).is_err());
        assert!(share.check(used(1_000, 0), nothing, 0).is_err());
        assert_eq!(share.check(nothing, nothing, u64::MAX), Err(CapacityExceeded::Total));
    }
}
