//! Series of the statistics of descriptors in Envoy's files.
//!
//! A series has the name of its descriptor. Values of requests are in it only where the file requests
//! them, and their number is bounded: further values count for the descriptor as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_rules::envoy::{DescriptorHits, MetricName};

use super::series_slots::SeriesSlots;

/// The maximum number of series.
pub(super) const MAX_DESCRIPTOR_SERIES: usize = 4096;
/// The maximum number of series with values of requests.
const MAX_VALUES: usize = 1024;
/// The maximum number of series with values of requests for one descriptor.
const MAX_VALUES_OF_ONE: usize = 256;
/// The maximum length of a name with values of requests, in bytes.
const MAX_NAME: usize = 256;
/// The series of all descriptors beyond the maximum.
const OTHER: u32 = 0;

/// The table of series. A decision finds its series by the location of its descriptor, or by a name
/// with values of the request.
#[derive(Debug)]
pub(super) struct DescriptorSeries {
    slots: SeriesSlots,
    table: ArcSwap<SeriesTable>,
    /// Taken while a series is added.
    adding: Mutex<()>,
}

/// All series, replaced as a whole when one is added.
#[derive(Clone, Debug)]
struct SeriesTable {
    /// The levels of each name; the series is the index.
    names: Vec<Arc<[Box<str>]>>,
    by_name: HashMap<Arc<str>, u32>,
    /// The number of series with values, by the series of their descriptor.
    values: HashMap<u32, usize>,
}

impl SeriesTable {
    /// Whether a descriptor may have another series with values.
    fn has_room_for_values(&self, descriptor: u32) -> bool {
        let of_one = self.values.get(&descriptor).copied().unwrap_or_default();
        of_one < MAX_VALUES_OF_ONE && self.values.values().sum::<usize>() < MAX_VALUES
    }

    /// Whether there may be another series without values. Room for all values is set aside.
    fn has_room(&self) -> bool {
        let with_values: usize = self.values.values().sum();
        self.names.len() - with_values < MAX_DESCRIPTOR_SERIES - MAX_VALUES
    }

    fn add(&mut self, name: &MetricName) -> u32 {
        let series = self.names.len() as u32;
        self.names.push(name.levels().map(Box::from).collect());
        self.by_name.insert(name.as_key().into(), series);
        series
    }
}

impl DescriptorSeries {
    pub(super) fn new() -> DescriptorSeries {
        let other = ["", "other"].map(Box::from);
        let table = SeriesTable {
            names: vec![Arc::new(other)],
            by_name: HashMap::new(),
            values: HashMap::new(),
        };
        DescriptorSeries {
            slots: SeriesSlots::default(),
            table: ArcSwap::from_pointee(table),
            adding: Mutex::default(),
        }
    }

    /// Returns the series of the hits of a descriptor.
    pub(super) fn for_hits(&self, hits: &DescriptorHits<'_>) -> u32 {
        let descriptor = self.slots.get_or_assign(&hits.location, || self.by_file_name(hits.name));
        match hits.name_by_value {
            Some(name) => self.by_value(descriptor, name),
            None => descriptor,
        }
    }

    /// Returns the series of a descriptor as a whole.
    fn by_file_name(&self, name: &MetricName) -> u32 {
        if let Some(series) = self.table.load().by_name.get(name.as_key()) {
            return *series;
        }
        self.add(name, |table| table.has_room()).unwrap_or(OTHER)
    }

    /// Returns the series of a descriptor for values of a request, or that of the descriptor if it has
    /// too many. No lock is taken then, since values may come from clients.
    fn by_value(&self, descriptor: u32, name: &MetricName) -> u32 {
        let table = self.table.load();
        if let Some(series) = table.by_name.get(name.as_key()) {
            return *series;
        }
        if name.as_key().len() > MAX_NAME || !table.has_room_for_values(descriptor) {
            return descriptor;
        }
        let room = |table: &mut SeriesTable| {
            let has_room = table.has_room_for_values(descriptor);
            if has_room {
                *table.values.entry(descriptor).or_default() += 1;
            }
            has_room
        };
        self.add(name, room).unwrap_or(descriptor)
    }

    /// Adds a series if there is room for it.
    #[cold]
    fn add(
        &self,
        name: &MetricName,
        has_room: impl FnOnce(&mut SeriesTable) -> bool,
    ) -> Option<u32> {
        let _adding = self.adding.lock();
        let mut table = SeriesTable::clone(&self.table.load());
        if let Some(series) = table.by_name.get(name.as_key()) {
            return Some(*series);
        }
        if !has_room(&mut table) {
            return None;
        }
        let series = table.add(name);
        self.table.store(Arc::new(table));
        Some(series)
    }

    /// Returns the levels of the names of all series, in order.
    pub(super) fn names(&self) -> Vec<Arc<[Box<str>]>> {
        self.table.load().names.clone()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_rules::Source;
    use tollgate_rules::envoy::{Descriptor, Domains};

    use super::*;

    /// Returns the name of the descriptor `key` of the domain `d`, by value or not.
    fn name(key: &str, value: &str, by_value: bool) -> MetricName {
        let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
        let file = format!(
            "{{ domain: d, descriptors: [{{ key: {key}, detailed_metric: {by_value}, {limit} }}] }}"
        );
        let domains = Domains::read([Source::new("d.yaml", file)]).unwrap();
        domains.get("d").unwrap().metric_name(&Descriptor::new(&[(key, value)])).unwrap()
    }

    #[test]
    fn values_beyond_the_maximum_count_for_their_descriptor() {
        let series = DescriptorSeries::new();
        let descriptor = series.by_file_name(&name("k", "", false));
        for value in 0..2 * MAX_VALUES_OF_ONE {
            series.by_value(descriptor, &name("k", &value.to_string(), true));
        }
        assert_eq!(series.names().len(), 2 + MAX_VALUES_OF_ONE);
        assert_eq!(series.by_value(descriptor, &name("k", "new", true)), descriptor);
        assert_eq!(series.by_value(descriptor, &name("k", "0", true)), descriptor + 1);
        // Another descriptor still has room, but not for a name without end.
        let other = series.by_file_name(&name("other", "", false));
        assert_ne!(series.by_value(other, &name("other", "v", true)), other);
        assert_eq!(series.by_value(other, &name("other", &"v".repeat(300), true)), other);
    }

    #[test]
    fn all_values_together_and_all_descriptors_together_are_bounded() {
        let series = DescriptorSeries::new();
        for key in 0..8 {
            let descriptor = series.by_file_name(&name(&format!("k{key}"), "", false));
            for value in 0..MAX_VALUES_OF_ONE {
                series.by_value(descriptor, &name(&format!("k{key}"), &value.to_string(), true));
            }
        }
        assert_eq!(series.names().len(), 1 + 8 + MAX_VALUES);
        let mut table = SeriesTable::clone(&series.table.load());
        while table.has_room() {
            table.names.push(table.names[0].clone());
        }
        assert_eq!(table.names.len(), MAX_DESCRIPTOR_SERIES);
        series.table.store(Arc::new(table));
        assert_eq!(series.by_file_name(&name("late", "", false)), OTHER);
    }
}
