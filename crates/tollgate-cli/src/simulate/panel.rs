//! One row of a chart or plot: the traffic under one set of limits or rules.

use super::timeline::{Counts, Timeline};
use crate::log::date;

/// The data of one row.
#[derive(Debug)]
pub(super) struct Panel<'a> {
    /// The short name, for charts of 80 columns.
    pub(super) label: &'a str,
    /// The name with details, for plots.
    pub(super) title: String,
    pub(super) total: Counts,
    pub(super) timeline: &'a Timeline,
}

/// The format of the time that a chart starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeOrigin {
    /// Microseconds, as in the trace.
    Trace,
    /// A date.
    Date,
}

impl TimeOrigin {
    pub(super) fn describe(self, zero_us: u64) -> String {
        match self {
            TimeOrigin::Trace => format!("at_us = {zero_us}"),
            TimeOrigin::Date => format!("{} UTC", date(zero_us)),
        }
    }
}
