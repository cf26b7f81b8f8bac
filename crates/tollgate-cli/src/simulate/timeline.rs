//! Allowed and denied requests over time, in bounded memory.
//!
//! Whenever there are too many bins, they become ten times wider. So a width is always a power of ten
//! microseconds, and bins add up to those of any round width.

use std::collections::BTreeMap;

/// The maximum number of bins.
const MAX_BINS: u64 = 10_000;

/// The numbers of allowed and denied requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) allowed: u64,
    pub(super) denied: u64,
}

/// The counts of a run over time.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    width_us: u64,
    /// The bins by `time / width_us`, without empty ones.
    bins: BTreeMap<u64, Counts>,
}

impl Timeline {
    pub(super) fn new() -> Timeline {
        Timeline { width_us: 1, bins: BTreeMap::new() }
    }

    pub(super) fn record(&mut self, at_us: u64, allowed: bool) {
        let counts = self.bins.entry(at_us / self.width_us).or_default();
        match allowed {
            true => counts.allowed += 1,
            false => counts.denied += 1,
        }
        while self.count() > MAX_BINS {
            self.width_us *= 10;
            self.bins = merged(&self.bins, 10);
        }
    }

    /// Returns the number of bins from the first to the last, empty ones included.
    fn count(&self) -> u64 {
        match (self.bins.first_key_value(), self.bins.last_key_value()) {
            (Some((first, _)), Some((last, _))) => (last - first).saturating_add(1),
            _ => 0,
        }
    }

    /// Returns the start of the first bin and the end of the last.
    fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.bins.first_key_value()?.0, self.bins.last_key_value()?.0);
        Some((first * self.width_us, (last + 1).saturating_mul(self.width_us)))
    }
}

fn merged(bins: &BTreeMap<u64, Counts>, by: u64) -> BTreeMap<u64, Counts> {
    let mut merged: BTreeMap<u64, Counts> = BTreeMap::new();
    for (index, counts) in bins {
        let sum = merged.entry(index / by).or_default();
        sum.allowed += counts.allowed;
        sum.denied += counts.denied;
    }
    merged
}

/// Several timelines with the same bins.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) start_us: u64,
    pub(super) width_us: u64,
    /// All bins of each timeline.
    pub(super) rows: Vec<Vec<Counts>>,
}

impl Axis {
    /// Divides timelines into at most `max_bins` bins of a round width; `None` if they are empty.
    pub(super) fn new<'a>(
        timelines: impl Iterator<Item = &'a Timeline> + Clone,
        max_bins: u64,
    ) -> Option<Axis> {
        let start = timelines.clone().filter_map(|timeline| Some(timeline.range()?.0)).min()?;
        let end = timelines.clone().filter_map(|timeline| Some(timeline.range()?.1)).max()?;
        let finest = timelines.clone().map(|timeline| timeline.width_us).max()?;
        let fits = |width: &u64| {
            width.is_multiple_of(finest) && end.div_ceil(*width) - start / width <= max_bins
        };
        let width_us = round_widths().find(fits)?;
        let first = start / width_us;
        let count = (end.div_ceil(width_us) - first) as usize;
        let row = |timeline: &Timeline| {
            let bins = merged(&timeline.bins, width_us / timeline.width_us);
            let mut row = vec![Counts::default(); count];
            bins.iter().for_each(|(index, counts)| row[(index - first) as usize] = *counts);
            row
        };
        Some(Axis { start_us: first * width_us, width_us, rows: timelines.map(row).collect() })
    }

    /// Returns the zero of the time axis: the start, if the trace begins far from zero as one with
    /// real dates does.
    pub(super) fn zero_us(&self) -> u64 {
        let bins = self.rows.first().map_or(1, Vec::len) as u64;
        let far = self.start_us > self.width_us.saturating_mul(bins).saturating_mul(4);
        if far { self.start_us } else { 0 }
    }

    /// Returns the count of the highest bin.
    pub(super) fn most(&self) -> u64 {
        let all = self.rows.iter().flatten();
        all.map(|counts| counts.allowed + counts.denied).max().unwrap_or(0)
    }
}

/// Returns round widths: 1, 2 and 5 of each power of ten, then minutes, hours and days.
fn round_widths() -> impl Iterator<Item = u64> {
    const SECOND: u64 = 1_000_000;
    const LONG: [u64; 16] =
        [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800];
    let decades = |from: u32, to: u32| {
        (from..to).flat_map(|exponent| [1, 2, 5].map(|digit| digit * 10_u64.pow(exponent)))
    };
    decades(0, 6).chain(LONG.map(|seconds| seconds * SECOND)).chain(decades(12, 19))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_bounded_and_nothing_is_lost() {
        let mut timeline = Timeline::new();
        for at in 0..50_000 {
            timeline.record(at * 977, at % 3 > 0);
        }
        assert_eq!(timeline.width_us, 10_000);
        assert!(timeline.bins.len() as u64 <= MAX_BINS);
        let axis = Axis::new([&timeline].into_iter(), 60).unwrap();
        assert_eq!((axis.start_us, axis.width_us, axis.rows[0].len()), (0, 1_000_000, 49));
        assert_eq!(axis.rows[0].iter().map(|c| c.allowed + c.denied).sum::<u64>(), 50_000);
    }

    #[test]
    fn the_first_and_last_times_are_supported() {
        let mut timeline = Timeline::new();
        timeline.record(u64::MAX, true);
        timeline.record(0, false);
        let axis = Axis::new([&timeline].into_iter(), 60).unwrap();
        assert!(axis.rows[0].len() <= 60);
        assert_eq!(axis.most(), 1);
        assert!(Axis::new([&Timeline::new()].into_iter(), 60).is_none());
    }

    #[test]
    fn timelines_share_one_axis() {
        let (mut early, mut late) = (Timeline::new(), Timeline::new());
        early.record(0, true);
        late.record(1_999_999, false);
        let axis = Axis::new([&early, &late].into_iter(), 10).unwrap();
        assert_eq!((axis.width_us, axis.rows.len()), (200_000, 2));
        assert_eq!(axis.rows[0][0], Counts { allowed: 1, denied: 0 });
        assert_eq!(axis.rows[1][9], Counts { allowed: 0, denied: 1 });
    }
}
